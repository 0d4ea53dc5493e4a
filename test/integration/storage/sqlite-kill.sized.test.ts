import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { sizes } from '../../support/sizes.ts';
import { runChild, sqliteHouse, type SqliteHouse } from './sqlite-house.ts';

let house: SqliteHouse;
beforeEach(() => {
  house = sqliteHouse();
});
afterEach(() => house.close());

const isWhole = (document: Buffer) =>
  createHash('sha256').update(document.subarray(32)).digest().equals(document.subarray(0, 32)) &&
  document.length === 30_032;

test('a killed process loses nothing that was acknowledged and leaves nothing half-written', async () => {
  const acknowledged: string[] = [];
  const kills = Array.from({ length: sizes.storageKills }, (_, i) => 7 + ((i * 331) % 900));
  for (const killedAfter of kills) {
    const { lines, exit, stderr } = await runChild('write on', house.path, { killedAfter });
    expect([exit, stderr]).toEqual(['SIGKILL', '']);
    expect(lines.length).toBeGreaterThanOrEqual(killedAfter);
    acknowledged.push(...lines);

    const storage = house.storage();
    const { roles, total } = await storage.roles.list({
      offset: 0,
      limit: 100_000,
      nameContains: '',
    });
    // No number was taken by a role that is not there.
    expect(roles.map(({ id }) => id)).toEqual(Array.from(roles, (_, i) => total - i));
    const datasets = await storage.datasets.list('p');
    expect(datasets.map(({ id }) => id)).toEqual(Array.from(datasets, (_, i) => i + 1));

    const there = new Set<string>();
    for (const { id, name } of roles) {
      if (id === 1) continue;
      const members = (await storage.roles.read(id))?.contains.map((member) => member.name) ?? [];
      expect(['a,b,c', 'a,b,c,d']).toContain(members.join());
      there.add(`role ${id} ${name}`);
      if (members.length === 4) there.add(`added ${id} ${name}`);
    }
    for (const { id, name } of datasets) {
      const document = (await storage.datasets.read('p', name))?.document;
      expect(document !== undefined && isWhole(document)).toBe(true);
      there.add(`dataset ${id} ${name}`);
    }
    const lost = acknowledged.filter((line) => !there.has(line.replace(/^updated /, 'dataset ')));
    expect(lost).toEqual([]);

    const next = await storage.roles.create({ name: `${total}`, description: '', contains: [] });
    expect(next).toEqual({ id: total + 1 });
    await storage.roles.update(total + 1, {
      name: `${total}`,
      description: '',
      contains: ['a', 'b', 'c'].map((name) => ({ type: 'user', name })),
    });
    await storage.close();
  }
});

test('a write that finds no room is refused, leaves nothing, and does not harm the next one', async () => {
  const { lines, exit, stderr } = await runChild('write one that is too large', house.path, {
    fileLimit: 4_000,
  });
  expect(lines).toEqual(['nothing-done', 'not there', '{"id":1}']);
  expect([exit, stderr]).toEqual([0, '']);
  expect(await house.storage().datasets.list('p')).toMatchObject([{ id: 1, name: 'small' }]);
});

test('a process that leaves its storage open ends all the same', async () => {
  const { lines, exit, stderr } = await runChild('leave open', house.path);
  expect([lines, exit, stderr]).toEqual([['written'], 0, '']);
  expect((await house.storage().roles.read(2))?.name).toBe('left');
});
