import type { Recording } from '../../../src/demo/replay-engine.ts';

/** A recording of made-up texts; its engine took 250 ms. */
export const recordingOf = (name: string, request: string, answer: string): Recording => ({
  name,
  request: { soapAction: '"urn:schemas-microsoft-com:xml-analysis:Execute"', body: request },
  answer: { status: 200, contentType: 'text/xml;charset=utf-8', body: Buffer.from(answer) },
  engineMs: 250,
});
