import { describe, expect, test } from '@jest/globals';
import { ENGINE_KINDS, type EngineKind } from '../../../../../src/common/engine-kinds.ts';
import type { RefusalReason } from '../../../../../src/common/reasons.ts';
import { inspectAnswer, refuseByHead } from '../../../../../src/xmla/answer/inspect-answer.ts';
import { mddatasetAnswer } from '../../../../support/answers.ts';
import { KINDS, POISONS, type Poison } from '../../../../support/poisons.ts';

/** Found by the cache, which knows sessions and how long an answer may be. */
const NOT_HERE = new Set<RefusalReason>(['session-in-answer', 'too-large']);
const HERE = POISONS.filter(({ reason }) => !NOT_HERE.has(reason));

function verdict(
  kind: EngineKind,
  { status, headers, body, method }: Pick<Poison, 'status' | 'headers' | 'body' | 'method'>,
): RefusalReason | undefined {
  const { errorsAsData, successHeader } = ENGINE_KINDS[kind];
  const byHead = refuseByHead({ status, headers }, successHeader);
  if (byHead !== undefined) return byHead;
  const contentType = headers['content-type'];
  const inspector = inspectAnswer({ contentType, method, errorsAsData });
  inspector.write(body);
  const inspection = inspector.end();
  return inspection.ok ? undefined : inspection.reason;
}

describe.each(KINDS)('an engine of the kind %s', (kind) => {
  test.each(HERE)('$what is stored only where it is genuine ($method)', (poison) => {
    expect(verdict(kind, poison)).toBe(poison.of.includes(kind) ? poison.reason : undefined);
  });

  test('has genuine answers', () => {
    const headers = { 'content-type': 'text/xml' };
    const body = Buffer.from(mddatasetAnswer());
    expect(verdict(kind, { status: 200, headers, body, method: 'Execute' })).toBeUndefined();
  });
});
