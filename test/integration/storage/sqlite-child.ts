/** A process of its own over a SQLite storage: `node sqlite-child.ts WHAT PATH`. Told line by line on stdout. */
import { createHash, randomBytes } from 'node:crypto';
import { writeSync } from 'node:fs';
import type { Dataset } from '../../../src/datasets/dataset.ts';
import { StorageUnavailable } from '../../../src/common/errors.ts';
import { createSqliteStorage } from '../../../src/storage/sqlite.ts';

const [what, path] = process.argv.slice(2);
/** Goes on writing when whoever reads is so slow that the pipe is full. */
function tell(line: string): void {
  for (let left = Buffer.from(`${line}\n`); left.length > 0;) {
    try {
      left = left.subarray(writeSync(1, left));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    }
  }
}

/** Its digest and then its bytes, so that a half of it is known. */
function selfDescribing(name: string): Dataset {
  const bytes = randomBytes(30_000);
  const digest = createHash('sha256').update(bytes).digest();
  return { project: 'p', name, type: 'MDX', document: Buffer.concat([digest, bytes]) };
}

if (path === undefined) throw new Error('a path is missing');
// Root may write to every file.
const nobody = 65_534;

const storage = createSqliteStorage({
  path,
  firstMembers: ['ADMIN'],
  wallClock: Date.now,
  randomBytes,
  onError: (error) => tell(`error ${String(error)}`),
});
const { roles, datasets } = storage;

/** Asks again where another process stood still with its lock for longer than is waited for it. */
async function idOf(): Promise<string> {
  for (;;) {
    try {
      return await storage.id();
    } catch (error) {
      if (!(error instanceof StorageUnavailable) || error.outcome !== 'nothing-done') throw error;
    }
  }
}

switch (what) {
  case 'id':
    tell(await idOf());
    await storage.close();
    break;

  case 'id as nobody':
    // The thread that opens the file starts after this.
    if (process.getuid?.() === 0) {
      process.setgid?.(nobody);
      process.setuid?.(nobody);
    }
    await storage.open().then(
      () => tell('opened'),
      (error: Error) => tell(`${error.name}: ${error.message}`),
    );
    await storage.close();
    break;

  case 'leave open':
    await roles.create({ name: 'left', description: '', contains: [] });
    await roles.read(1);
    tell('written');
    break;

  case 'write one that is too large': {
    const large = { ...selfDescribing('large'), document: randomBytes(8_000_000) };
    const outcome = await datasets.create(large).then(
      () => 'done',
      (error: { outcome?: unknown }) => String(error.outcome),
    );
    tell(outcome);
    tell((await datasets.read('p', 'large')) === undefined ? 'not there' : 'there');
    tell(JSON.stringify(await datasets.create(selfDescribing('small'))));
    await storage.close();
    break;
  }

  case 'write on': {
    const run = `${Date.now()}`;
    const write = async (i: number) => {
      const name = `${run} ${i}`;
      const contains = ['a', 'b', 'c'].map((user) => ({ type: 'user', name: user }) as const);
      const role = await roles.create({ name, description: name, contains });
      if (role === 'name-taken') throw new Error(name);
      tell(`role ${role.id} ${name}`);
      const dataset = await datasets.create(selfDescribing(name));
      if (dataset === 'exists') throw new Error(name);
      tell(`dataset ${dataset.id} ${name}`);
      await roles.addMember(role.id, name, { type: 'user', name: 'd' });
      tell(`added ${role.id} ${name}`);
      await datasets.update(selfDescribing(name));
      tell(`updated ${dataset.id} ${name}`);
    };
    for (let i = 0; i < 1_000; i += 4) {
      await Promise.all([write(i), write(i + 1), write(i + 2), write(i + 3)]);
    }
    break;
  }

  default:
    throw new Error(`unknown: ${what}`);
}
