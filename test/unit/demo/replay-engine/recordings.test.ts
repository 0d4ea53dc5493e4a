import { describe, expect, test } from '@jest/globals';
import { loadRecordings } from '../../../../src/demo/replay-engine.ts';
import { inspectAnswer } from '../../../../src/xmla/answer/inspect-answer.ts';
import { ENGINE_KINDS } from '../../../../src/common/engine-kinds.ts';
import { classify } from '../../../../src/xmla/request/classify.ts';
import { readRequest } from '../../../../src/xmla/request/read-request.ts';

describe('the recordings that come with the program', () => {
  test('are at least eight, each with a name and a question of its own', async () => {
    const recordings = await loadRecordings();
    expect(recordings.length).toBeGreaterThanOrEqual(8);
    expect(new Set(recordings.map(({ name }) => name)).size).toBe(recordings.length);
    expect(new Set(recordings.map(({ request }) => request.body)).size).toBe(recordings.length);
  });

  test('may all be cached, question and answer', async () => {
    for (const { name, request, answer } of await loadRecordings()) {
      const reading = readRequest(Buffer.from(request.body), 'text/xml; charset=UTF-8');
      if (reading.kind !== 'understood') throw new Error(`"${name}" is not understood`);
      expect([name, classify(reading.request, ENGINE_KINDS.mondrian)]).toEqual([name, undefined]);
      const inspector = inspectAnswer({
        contentType: answer.contentType,
        method: reading.request.method,
        errorsAsData: ENGINE_KINDS.mondrian.errorsAsData,
      });
      inspector.write(answer.body);
      expect([name, inspector.end()]).toEqual([name, { ok: true, session: undefined }]);
    }
  });
});
