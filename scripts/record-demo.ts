/**
 * Records the exchanges that `mdx-gateway demo` replays, from a Mondrian that was just started, so that the
 * recorded times are those of an engine whose own caches are empty. Run again when the sample warehouse changes.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { RECORDINGS_FOLDER, RECORDINGS_LIST, loadRecordings } from '../src/demo/replay-engine.ts';
import type { ListedRecording } from '../src/demo/replay-engine.ts';
import { startMondrian } from '../test/engine/mondrian.ts';
import { CACHEABLE_REQUESTS } from '../test/engine/requests.ts';

const QUESTIONS = [
  'Sales by country and year',
  'Margin by family and quarter',
  'The ten best products',
  'Buyers by segment and month',
  'Cities with their population',
  'Growth against the year before',
  'Stock by country and month',
  'Customers and what they bought',
  'Every product in every month',
  'All members of Sales',
];

const engine = await startMondrian();
try {
  await rm(RECORDINGS_FOLDER, { recursive: true, force: true });
  await mkdir(RECORDINGS_FOLDER, { recursive: true });
  const list: ListedRecording[] = [];
  for (const [index, name] of QUESTIONS.entries()) {
    const request = CACHEABLE_REQUESTS.find((one) => one.name === name);
    if (request === undefined) throw new Error(`no request is called "${name}"`);
    const start = performance.now();
    const answer = await fetch(engine.url, {
      method: 'POST',
      headers: request.headers,
      body: request.body,
    });
    const body = Buffer.from(await answer.arrayBuffer());
    const engineMs = Math.round(performance.now() - start);
    if (answer.status !== 200 || body.includes('Fault>')) throw new Error(`"${name}" failed`);
    const file = `${String(index + 1).padStart(2, '0')}.xml.gz`;
    await writeFile(new URL(file, RECORDINGS_FOLDER), gzipSync(body, { level: 9 }));
    list.push({
      name,
      engineMs,
      request: { soapAction: request.soapAction, body: request.body },
      answer: {
        status: answer.status,
        contentType: answer.headers.get('content-type') ?? '',
        file,
      },
    });
    console.log(`${name}: ${body.length} bytes in ${engineMs} ms`);
  }
  await writeFile(RECORDINGS_LIST, `${JSON.stringify(list, undefined, 2)}\n`);
  await loadRecordings();
} finally {
  await engine.close();
}
