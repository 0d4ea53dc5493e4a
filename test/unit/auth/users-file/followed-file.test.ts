import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  appendFileSync,
  mkdtempSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createUsersReader, followUsers } from '../../../../src/auth/users-file.ts';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import { createGate, createTestFile, HASHES } from '../support.ts';

const ADMIN = `ADMIN:${HASHES.kylin}`;
const ANALYST = `ANALYST:${HASHES.fastCars}`;

async function open(file: ReturnType<typeof createTestFile>) {
  const events: GatewayEvent[] = [];
  const source = await followUsers({
    file: '/etc/users',
    read: file.read,
    pause: file.pause,
    emit: (event) => events.push(event),
  });
  const names = () => [...source.users.accounts.keys()];
  return { source, events, names };
}

describe('a users file that is followed', () => {
  test('has the users before it is there', async () => {
    const { names, events } = await open(createTestFile([ADMIN]));
    expect(names()).toEqual(['ADMIN']);
    expect(events).toEqual([{ type: 'users-loaded', count: 1 }]);
  });

  test('does not start with a wrong or missing file', async () => {
    await expect(open(createTestFile(['ADMIN:x']))).rejects.toThrow('not bcrypt');
    const missing = createTestFile([]);
    missing.write(Object.assign(new Error('ENOENT: nothing there'), { code: 'ENOENT' }));
    await expect(open(missing)).rejects.toThrow('made by: htpasswd -c -B -C 10 /etc/users NAME');
    missing.write(new Error('EACCES: permission denied'));
    await expect(open(missing)).rejects.toThrow('cannot be read (EACCES: permission denied)');
  });

  test('takes a change that two readings in a row show, and says so once', async () => {
    const file = createTestFile([ADMIN]);
    const { names, events } = await open(file);
    file.write([ADMIN, ANALYST]);
    await file.pass(1);
    expect(names()).toEqual(['ADMIN']);
    await file.pass(1);
    expect(names()).toEqual(['ADMIN', 'ANALYST']);
    await file.pass(5);
    expect(events).toHaveLength(2);
  });

  test('takes a change of content even if length and time stay the same', async () => {
    const file = createTestFile([`A:${HASHES.fastCars}`]);
    const { events } = await open(file);
    file.write([`A:${HASHES.newCars}`]);
    await file.pass(2);
    expect(events).toHaveLength(2);
  });

  test('does not take half a file that is being written', async () => {
    const file = createTestFile([ADMIN, ANALYST]);
    const { names, events } = await open(file);
    file.write([ADMIN]);
    await file.pass(1);
    file.write([ADMIN, ANALYST]);
    await file.pass(3);
    expect(names()).toEqual(['ADMIN', 'ANALYST']);
    expect(events).toHaveLength(1);
  });

  test('two different readings are no confirmation', async () => {
    const file = createTestFile([ADMIN]);
    const { names } = await open(file);
    file.write([ANALYST]);
    await file.pass(1);
    file.write([ADMIN, ANALYST]);
    await file.pass(1);
    file.write([ANALYST]);
    await file.pass(1);
    expect(names()).toEqual(['ADMIN']);
  });

  test('two readings with the old content in between are no confirmation', async () => {
    const file = createTestFile([ADMIN]);
    const { names } = await open(file);
    for (const line of [ANALYST, ADMIN, ANALYST]) {
      file.write([line]);
      await file.pass(1);
    }
    expect(names()).toEqual(['ADMIN']);
  });

  test('bears a file that is missing for a moment without a word', async () => {
    const file = createTestFile([ADMIN]);
    const { names, events } = await open(file);
    file.write(new Error('ENOENT'));
    await file.pass(1);
    file.write([ADMIN]);
    await file.pass(2);
    expect(names()).toEqual(['ADMIN']);
    expect(events).toHaveLength(1);
  });

  test.each([
    ['missing', new Error('ENOENT')],
    ['wrong', ['ADMIN:x']],
    ['empty', []],
  ])('keeps the old users while the file is %s, says so once, and recovers', async (_case, bad) => {
    const file = createTestFile([ADMIN]);
    const { names, events } = await open(file);
    file.write(bad);
    await file.pass(5);
    expect(names()).toEqual(['ADMIN']);
    expect(events.map(({ type }) => type)).toEqual(['users-loaded', 'warning']);
    file.write([ADMIN]);
    await file.pass(2);
    expect(events.map(({ type }) => type)).toEqual(['users-loaded', 'warning', 'users-loaded']);
  });

  test('is what it was while its reader says so', async () => {
    const file = createTestFile([ADMIN]);
    let isAtRest = false;
    const events: GatewayEvent[] = [];
    const { users } = await followUsers({
      file: 'f',
      read: async () => (isAtRest ? undefined : file.read()),
      pause: file.pause,
      emit: (event) => events.push(event),
    });
    file.write([ANALYST]);
    isAtRest = true;
    await file.pass(3);
    expect(events).toHaveLength(1);
    isAtRest = false;
    await file.pass(2);
    expect([...users.accounts.keys()]).toEqual(['ANALYST']);
  });

  test('readings do not gather behind one that hangs', async () => {
    const file = createTestFile([ADMIN]);
    const gate = createGate();
    let reads = 0;
    await followUsers({
      file: 'f',
      read: async () => {
        reads += 1;
        if (reads > 1) await gate.passed;
        return file.read();
      },
      pause: file.pause,
      emit: () => {},
    });
    await file.pass(3);
    expect(reads).toBe(2);
    gate.open();
  });

  test('once closed, neither the timer nor a reading under way changes anything', async () => {
    const file = createTestFile([ADMIN]);
    const { source, names } = await open(file);
    file.write([ANALYST]);
    await file.pass(1);
    const reading = file.pass(1);
    source.close();
    await reading;
    expect(names()).toEqual(['ADMIN']);
    expect(file.isFollowed()).toBe(false);
  });
});

describe('the reader of a users file', () => {
  let folder: string;
  let file: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-users-'));
    file = join(folder, 'users');
    writeFileSync(file, 'one');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** So many looks, and what was read with each; '' where nothing was. */
  async function look(read: ReturnType<typeof createUsersReader>, times: number) {
    const seen: string[] = [];
    for (let n = 0; n < times; n += 1) seen.push(String((await read(file)) ?? ''));
    return seen;
  }

  test('reads one that is at rest once a minute, and looks at its state alone in between', async () => {
    const read = createUsersReader();
    expect(await look(read, 5)).toEqual(Array.from({ length: 5 }, () => 'one'));
    expect((await look(read, 600)).filter((text) => text === 'one')).toHaveLength(10);
  });

  test.each([
    ['written longer', () => appendFileSync(file, ' two')],
    ['written anew with the same length', () => writeFileSync(file, 'two')],
    ['cut', () => truncateSync(file, 1)],
    [
      'replaced',
      () => {
        writeFileSync(`${file}.new`, 'two');
        renameSync(`${file}.new`, file);
      },
    ],
  ])('reads one that was %s at the next look, and some times more', async (_what, change) => {
    const read = createUsersReader();
    await look(read, 10);
    change();
    const seen = await look(read, 6);
    expect(seen.map((text) => text !== '' && text !== 'one')).toEqual([
      true,
      true,
      true,
      true,
      true,
      false,
    ]);
  });

  test('refuses what is no file, and what is too long, and reads it when that is mended', async () => {
    const read = createUsersReader();
    await expect(read(folder)).rejects.toThrow('it is not a regular file');
    truncateSync(file, 16 * 1024 * 1024 + 1);
    await expect(read(file)).rejects.toThrow('it is larger than 16777216 bytes');
    rmSync(file);
    await expect(read(file)).rejects.toThrow('ENOENT');
    writeFileSync(file, 'two');
    expect(String(await read(file))).toBe('two');
  });
});
