import { expect, test } from '@jest/globals';
import { sessionReader } from '../../../../../src/cache/answer-sessions.ts';
import { textDecoder } from '../../../../../src/xml/text-encoding.ts';
import { inspectAnswer } from '../../../../../src/xmla/answer/inspect-answer.ts';
import { watchAnswer } from '../../../../../src/xmla/answer/watch-answer.ts';

/**
 * An object literal with a getter makes a class of its own each time, which V8 keeps, with all that the getter sees, until
 * the next full collection: of each answer nearly everything outlived its collection, which took ten times as long.
 */
test.each([
  ['inspection', inspectAnswer({ contentType: undefined, method: 'Execute', errorsAsData: [] })],
  ['decoder', textDecoder('utf-8')],
  ['watch', watchAnswer({ contentType: undefined })],
  ['session reader', sessionReader({ headers: {} })],
])('the %s of an answer has no getter, so that it goes when the answer does', (_name, object) => {
  for (const property of Object.values(Object.getOwnPropertyDescriptors(object)))
    expect(property).not.toHaveProperty('get');
});
