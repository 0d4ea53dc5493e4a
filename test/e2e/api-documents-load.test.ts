import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { connect, type Socket } from 'node:net';
import { apiOf, ask, dataOf } from '../contract/api-client.ts';
import { configFolder, listening, runMain, type ConfigFolder } from '../support/gateway-process.ts';
import { portOf, send, until, type Answer } from '../support/http-client.ts';
import { startPostgres, type PostgresServer } from '../support/postgres-server.ts';
import { sizes } from '../support/sizes.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const MIB = 1024 * 1024;
/** What of one user may wait, as src/api/documents.ts has it. */
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

describe('exports that are not read on', () => {
  const EXPORT = '/dataset?project=p&datasetType=mdx&datasetName=d';
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
  function reader(user: string) {
    const socket = connect(portOf(base), '127.0.0.1');
    const made = { socket, began: '' };
    socket.on('error', () => {});
    socket.once('readable', () => {
      made.began = String((socket.read() as Buffer | null)?.subarray(0, 12));
    });
    socket.write(
      `GET /api${EXPORT} HTTP/1.1\r\nHost: x\r\nAuthorization: ${basic(user)}\r\nConnection: close\r\n\r\n`,
    );
    return made;
  }
  async function exported(user: 'ADMIN' | 'alice' | 'bob') {
    const { status, body } = await ask(base, EXPORT, { user });
    return [status, body.equals(document)];
  }
  const begun = (readers: readonly { began: string }[], head: string) =>
    readers.filter(({ began }) => began === head).length;

  test('by one user keep nobody else from imports, updates and exports', async () => {
    const api = apiOf(base);
    const readers = Array.from({ length: 4 }, () => reader('alice'));
    await until(() => begun(readers, 'HTTP/1.1 200') >= 2);
    expect(dataOf(await api.import(documentOf('e', 1000)))).toEqual({
      dataset_id: expect.any(Number),
    });
    expect((await api.replace(documentOf('e', 2000))).status).toBe(200);
    expect(await exported('bob')).toEqual([200, true]);
    for (const { socket } of readers) socket.destroy();
  });

  test('take the memory of a few, let others be served, and leave nothing behind', async () => {
    const api = apiOf(base);
    const before = await residentMiB();
    const readers = ['alice', 'bob'].flatMap((user) =>
      Array.from({ length: QUEUE + 4 }, () => reader(user)),
    );
    await until(() => begun(readers, 'HTTP/1.1 503') >= 4 && begun(readers, 'HTTP/1.1 200') >= 4);
    expect(dataOf(await api.read(1))).toMatchObject({ name: 'Admin' });
    expect((await api.datasets('p')).status).toBe(200);
    expect((await api.replace(document)).status).toBe(200);
    expect(await exported('ADMIN')).toEqual([200, true]);
    // All of them would take 8 GiB.
    const grown = (await residentMiB()) - before;
    expect(grown).toBeLessThan(250);

    const served = begun(readers, 'HTTP/1.1 200');
    for (const { socket, began } of readers) if (began !== '') socket.destroy();
    await until(() => begun(readers, 'HTTP/1.1 200') >= served + 4);
    for (const { socket } of readers) socket.destroy();
    expect([await exported('alice'), await exported('bob')]).toEqual([
      [200, true],
      [200, true],
    ]);
  });
});

describe('imports that come slowly', () => {
  let gateway: TestGateway;
  const sockets: Socket[] = [];
  beforeAll(async () => {
    gateway = await startTestGateway({
      auth: { admins: ['ADMIN', 'alice', 'bob'] },
      storage: { driver: 'sqlite', path: ':memory:' },
    });
  });
  afterAll(async () => {
    for (const socket of sockets) socket.destroy();
    await gateway.close();
  });

  test('of two users keep no other user from exports and imports', async () => {
    const api = apiOf(gateway.url);
    await imported(gateway.url, documentOf('d', 1000));
    // What is slow begins at once where the login is known already.
    for (const user of ['alice', 'bob'] as const) {
      expect((await ask(gateway.url, '/datasets/MDX/p', { user })).status).toBe(200);
    }
    let told = '';
    for (const user of ['alice', 'alice', 'bob', 'bob']) {
      const socket = connect(portOf(gateway.url), '127.0.0.1');
      sockets.push(socket);
      socket.on('error', () => {});
      socket.on('data', (piece) => (told += String(piece)));
      socket.write(
        'POST /api/dataset?createType=import HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n' +
          `Authorization: ${basic(user)}\r\nContent-Length: 5000\r\nExpect: 100-continue\r\n\r\n{`,
      );
    }
    const begun = 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(4);
    await until(() => told === begun);
    expect((await api.export('p', 'd')).text).toBe(String(documentOf('d', 1000)));
    expect((await api.import(documentOf('e', 1000))).status).toBe(200);
    expect(told).toBe(begun);
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
