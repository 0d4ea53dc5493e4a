import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSqliteStorage } from '../../src/storage/sqlite.ts';
import { describeStorage } from './storage-contract.ts';

describeStorage('SQLite', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'mdx-gateway-sqlite-'));
  const path = join(folder, 'data', 'gateway.sqlite');
  return {
    storage: (parts) => createSqliteStorage({ path, ...parts }),
    remove: () => rm(folder, { recursive: true }),
  };
});
