import { expect, test } from '@jest/globals';
import { GatewayError } from '../../../src/common/errors.ts';

test('what a client is told costs no stack, and all other errors keep theirs', () => {
  const cause = new Error('the cause');
  const told = new GatewayError('internal', 'told', { cause });
  expect(told.stack).not.toContain('\n');
  expect((told.cause as Error).stack).toContain('errors.test.ts');
  expect(new Error('another').stack).toContain('errors.test.ts');
});
