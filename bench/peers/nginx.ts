import { join } from 'node:path';
import { freePort } from '../../test/support/free-port.ts';
import type { House, Subject } from '../house.ts';
import { listensOn, SERVER_CORE, start } from '../processes.ts';
import { writeFilled } from './template.ts';

/** Starts nginx with its configuration in this folder. */
export async function startNginx(house: House, enginePort: number): Promise<Subject> {
  const folder = house.folder('nginx');
  const port = await freePort();
  const file = writeFilled('nginx.conf', folder, {
    PORT: port,
    FOLDER: folder,
    ENGINE: enginePort,
  });
  const log = join(folder, 'nginx.log');
  const running = start(SERVER_CORE, 'nginx', ['-c', file, '-p', folder, '-e', log]);
  house.defer(running.stop);
  await listensOn(port, running);
  return {
    name: 'nginx',
    port,
    path: '/mdx/xmla',
    headers: {},
    cpu: running.cpu,
    tells: { header: 'x-cache', hit: /^HIT$/ },
  };
}
