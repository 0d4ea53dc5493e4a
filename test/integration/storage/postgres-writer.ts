/** Run as a process of its own: `node postgres-writer.ts URL WRITES`. Prints a line for each write that was acknowledged. */

import { storageAt } from './postgres-house.ts';
import { writeAll } from './postgres-writes.ts';

const [, , url = '', writes = '0'] = process.argv;
const storage = storageAt(url, { connections: 4 });
await storage.open();
process.stdout.write('open\n');
await writeAll(storage, Number(writes), {
  acknowledged: (write) => void process.stdout.write(`${write}\n`),
  failed: (_write, error) => {
    throw error;
  },
});
await storage.close();
