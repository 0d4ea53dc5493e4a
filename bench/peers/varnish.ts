import { freePort } from '../../test/support/free-port.ts';
import type { House, Subject } from '../house.ts';
import { listensOn, SERVER_CORE, start } from '../processes.ts';
import { writeFilled } from './template.ts';

/** Starts Varnish with its configuration in this folder. */
export async function startVarnish(house: House, enginePort: number): Promise<Subject> {
  const folder = house.folder('varnish');
  const port = await freePort();
  const file = writeFilled('varnish.vcl', folder, { ENGINE: enginePort });
  const where = ['-F', '-n', folder, '-j', 'none', '-a', `127.0.0.1:${port}`];
  const args = where.concat('-f', file, '-s', 'malloc,1g');
  const running = start(SERVER_CORE, 'varnishd', args, { stdio: 'ignore' });
  house.defer(running.stop);
  await listensOn(port, running);
  return {
    name: 'varnish',
    port,
    path: '/mdx/xmla',
    headers: {},
    cpu: running.cpu,
    tells: { header: 'x-cache', hit: /^HIT$/ },
  };
}
