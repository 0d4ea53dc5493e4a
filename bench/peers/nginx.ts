import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../test/support/free-port.ts';
import { ANALYST, basic, PASSWORD, usersFile } from '../credentials.ts';
import type { House, Subject } from '../house.ts';
import { CLIENT_CORE, listensOn, run, SERVER_CORE, start } from '../processes.ts';
import { writeFilled } from './template.ts';

/** The servers of nginx.conf: one process, one cache. */
export type NginxServer = 'PLAIN' | 'OPEN_FILES' | 'LOGIN_PLAIN' | 'LOGIN_APR1' | 'LOGIN_BCRYPT';

const NAMES: Readonly<Record<NginxServer, string>> = {
  PLAIN: 'nginx',
  OPEN_FILES: 'nginx, open files',
  LOGIN_PLAIN: 'nginx, plain login',
  LOGIN_APR1: 'nginx, apr1 login',
  LOGIN_BCRYPT: 'nginx, bcrypt-5 login',
};

/** Starts nginx with its configuration in this folder. */
export async function startNginx(
  house: House,
  enginePort: number,
): Promise<Readonly<Record<NginxServer, Subject>>> {
  const folder = house.folder('nginx');
  const ports: Partial<Record<NginxServer, number>> = {};
  for (const server of serverNames) ports[server] = await unusedPort(Object.values(ports));
  await writeUsers(folder);
  const file = writeFilled('nginx.conf', folder, { ...ports, FOLDER: folder, ENGINE: enginePort });
  const running = start(SERVER_CORE, 'nginx', [
    '-c',
    file,
    '-p',
    folder,
    '-e',
    join(folder, 'nginx.log'),
  ]);
  house.defer(running.stop);
  await listensOn(ports.PLAIN ?? 0, running);
  const subjectOf = (server: NginxServer): Subject => ({
    name: NAMES[server],
    port: ports[server] ?? 0,
    path: '/mdx/xmla',
    headers: server.startsWith('LOGIN') ? basic(ANALYST) : {},
    cpu: running.cpu,
    tells: { header: 'x-cache', hit: /^HIT$/ },
  });
  return {
    PLAIN: subjectOf('PLAIN'),
    OPEN_FILES: subjectOf('OPEN_FILES'),
    LOGIN_PLAIN: subjectOf('LOGIN_PLAIN'),
    LOGIN_APR1: subjectOf('LOGIN_APR1'),
    LOGIN_BCRYPT: subjectOf('LOGIN_BCRYPT'),
  };
}

const serverNames = Object.keys(NAMES) as readonly NginxServer[];

async function unusedPort(taken: readonly number[]): Promise<number> {
  const port = await freePort();
  return taken.includes(port) ? unusedPort(taken) : port;
}

async function writeUsers(folder: string): Promise<void> {
  const apr1 = await run(CLIENT_CORE, 'openssl', ['passwd', '-apr1', PASSWORD]);
  writeFileSync(join(folder, 'users.plain'), `${ANALYST}:{PLAIN}${PASSWORD}\n`);
  writeFileSync(join(folder, 'users.apr1'), `${ANALYST}:${apr1.trim()}\n`);
  writeFileSync(join(folder, 'users.bcrypt'), await usersFile(5));
}
