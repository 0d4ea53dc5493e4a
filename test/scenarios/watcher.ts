import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { scenario } from './vocabulary.ts';

const folder = mkdtempSync(join(tmpdir(), 'scenario-'));
const path = join(folder, 'shop.loaded');
writeFileSync(path, 'Monday');

scenario(
  'a watcher sees that the data changed, and purges without a call',
  { projects: { Shop: { watch: { kind: 'file', path, every: '1s' } } } },
  async ({ engine, gateway, user, until }) => {
    const purged = () => gateway.events.filter(({ type }) => type === 'purged').length;
    const alice = user('alice', { project: 'Shop' });
    await until(() => purged() === 1);
    await alice.asks('Sales', 'miss stored: Sales of Monday');
    await alice.asks('Sales', 'hit: Sales of Monday');
    engine.data = 'Tuesday';
    writeFileSync(path, 'Tuesday');
    await until(() => purged() === 2);
    await alice.asks('Sales', 'miss stored: Sales of Tuesday');
    rmSync(folder, { recursive: true });
  },
);
