import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { connect } from 'node:net';
import { apiOf, dataOf, failureOf } from '../contract/api-client.ts';
import { configFolder, listening, runMain, type ConfigFolder } from '../support/gateway-process.ts';
import { portOf, send, until, type Answer } from '../support/http-client.ts';
import { startPostgres, type PostgresServer } from '../support/postgres-server.ts';
import { sizes } from '../support/sizes.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const MIB = 1024 * 1024;
/** As src/http/api/document-gate.ts has them. */
const PLACES = 4;
const QUEUE = 256;

/** A document of so many bytes. */
function documentOf(name: string, bytes: number, project = 'p'): Buffer {
  const head = `{"project":"${project}","dataset_name":"${name}","type":"MDX","rows":"`;
  return Buffer.from(`${head}${'x'.repeat(bytes - head.length - 2)}"}`);
}

async function imported(base: string, document: Buffer): Promise<void> {
  const { status, text } = await apiOf(base).import(document);
  if (status !== 200) throw new Error(text);
}

describe('exports that nobody reads', () => {
  const document = documentOf('d', 16 * MIB);
  let folder: ConfigFolder;
  let base: string;
  let stop: () => Promise<unknown>;

  beforeAll(async () => {
    folder = await configFolder();
    const running = runMain(['serve', '--config', folder.write({ listen: { open: ['metrics'] } })]);
    base = await listening(running);
    stop = () => {
      running.kill('SIGKILL');
      return running.ended;
    };
    await imported(base, document);
  });
  afterAll(async () => {
    await stop();
    folder.remove();
  });

  async function residentMiB(): Promise<number> {
    const { text } = await send(base, { path: '/metrics' });
    const [, bytes] = /^mdx_gateway_process_resident_memory_bytes (\S+)$/m.exec(text) ?? [];
    return Number(bytes) / MIB;
  }

  /** Asks for the document and takes no more of it than its first bytes. */
  function reader() {
    const socket = connect(portOf(base), '127.0.0.1');
    const made = { socket, began: '' };
    socket.on('error', () => {});
    socket.once('readable', () => {
      made.began = String((socket.read() as Buffer | null)?.subarray(0, 12));
    });
    const target = '/api/dataset?project=p&datasetType=mdx&datasetName=d';
    socket.write(
      `GET ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: ${basic('alice')}\r\nConnection: close\r\n\r\n`,
    );
    return made;
  }

  test('take the memory of a few, let others be served, and leave nothing behind', async () => {
    const api = apiOf(base);
    const before = await residentMiB();
    const readers = Array.from({ length: PLACES + QUEUE + 4 }, reader);
    const answered = (head: string) => readers.filter(({ began }) => began === head);
    await until(() => answered('HTTP/1.1 503').length + answered('HTTP/1.1 200').length === 8);
    expect(answered('HTTP/1.1 200')).toHaveLength(PLACES);
    expect(failureOf(await api.export('p', 'd'))).toBe('503 overloaded');
    expect(failureOf(await api.replace(documentOf('d', 1000)))).toBe('503 overloaded');
    expect(dataOf(await api.read(1))).toMatchObject({ name: 'Admin' });
    expect((await api.datasets('p')).status).toBe(200);
    // All of them would take more than 600 MiB.
    const grown = (await residentMiB()) - before;
    expect(grown).toBeLessThan(250);

    for (const { socket } of answered('HTTP/1.1 200')) socket.destroy();
    await until(() => answered('HTTP/1.1 200').length === 2 * PLACES);
    for (const { socket } of readers) socket.destroy();
    const whole = await api.export('p', 'd');
    expect([whole.status, whole.body.equals(document)]).toEqual([200, true]);
    expect((await api.replace(document)).status).toBe(200);
  });
});

describe('with PostgreSQL', () => {
  const document = documentOf('d', sizes.loadedDocument);
  let postgres: PostgresServer;
  let gateway: TestGateway;

  beforeAll(async () => {
    postgres = await startPostgres();
    const { url } = await postgres.house();
    const timeout = `${sizes.loadedTimeout}ms`;
    gateway = await startTestGateway({ storage: { driver: 'postgres', url, timeout } });
    await imported(gateway.url, document);
  });
  afterAll(async () => {
    await gateway.close();
    await postgres.close();
  });

  /** Reads a role again and again while others do what is long. */
  async function besideRoles(long: readonly Promise<Answer>[]) {
    const during = new AbortController();
    const answers = Promise.all(long).finally(() => during.abort());
    const roles: number[] = [];
    while (!during.signal.aborted) roles.push((await apiOf(gateway.url).read(1)).status);
    return { statuses: (await answers).map(({ status }) => status), roles };
  }

  test('many exports at one time are all answered, and roles are read meanwhile', async () => {
    const exports = Array.from({ length: 16 }, () => apiOf(gateway.url).export('p', 'd'));
    const { statuses, roles } = await besideRoles(exports);
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(new Set(roles)).toEqual(new Set([200]));
    expect((await exports[15])?.body.equals(document)).toBe(true);
  });

  test('many imports and updates at one time are all done, and roles are read meanwhile', async () => {
    const documents = Array.from({ length: 12 }, (_none, number) =>
      documentOf(`d${number}`, sizes.loadedDocument, `p${number}`),
    );
    for (const method of ['import', 'replace'] as const) {
      const changes = documents.map((one) => apiOf(gateway.url)[method](one));
      const { statuses, roles } = await besideRoles(changes);
      expect(new Set(statuses)).toEqual(new Set([200]));
      expect(new Set(roles)).toEqual(new Set([200]));
    }
  });
});
