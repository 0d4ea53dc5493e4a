import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { listensOn, SERVER_CORE, start } from '../../bench/processes.ts';
import { makeAuthority } from './certificates.ts';
import { ensureDebianPackages } from './debian-packages.ts';
import { freePort } from './free-port.ts';

export const PROXIES = ['nginx', 'HAProxy'] as const;
export type ProxyName = (typeof PROXIES)[number];

const FILES: Readonly<Record<ProxyName, string>> = { nginx: 'nginx.conf', HAProxy: 'haproxy.cfg' };

/** The configuration as it is shipped. */
export const shippedProxy = (name: ProxyName): string =>
  readFileSync(
    fileURLToPath(new URL(`../../deploy/proxy/${FILES[name]}`, import.meta.url)),
    'utf8',
  );

export interface Proxy {
  readonly url: string;
  /** The authority of its certificate. */
  readonly ca: string;
  /** What it has told so far of itself. */
  told(): string;
  /** Where it may keep what it does not hold in memory. */
  readonly folder: string;
  stop(): Promise<void>;
}

/** Starts it with the configuration that is shipped; nothing is replaced but addresses and the paths of its certificate. */
export async function startProxy(
  name: ProxyName,
  gateways: readonly [number, number],
): Promise<Proxy> {
  await ensureDebianPackages([
    { name: 'nginx-light', probe: 'nginx' },
    { name: 'haproxy', probe: 'haproxy' },
  ]);
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-proxy-'));
  const authority = makeAuthority();
  const own = authority.issue('proxy');
  const port = await freePort();
  const both = join(folder, 'both.pem');
  writeFileSync(both, own.pem + readFileSync(own.key, 'utf8'));
  const file = join(folder, FILES[name]);
  const text = replaced(shippedProxy(name), [
    ['10.20.0.11:7080', `127.0.0.1:${gateways[0]}`],
    ['10.20.0.12:7080', `127.0.0.1:${gateways[1]}`],
    ...(name === 'nginx'
      ? ([
          ['listen 443 ssl', `listen 127.0.0.1:${port} ssl`],
          ['/etc/nginx/tls/mdx.pem', own.certificate],
          ['/etc/nginx/tls/mdx.key', own.key],
        ] as const)
      : ([
          ['bind :443', `bind 127.0.0.1:${port}`],
          ['/etc/haproxy/tls/mdx.pem', both],
          // Who is not root may not become another user.
          ...(process.getuid?.() === 0
            ? []
            : (['chroot /var/lib/haproxy', 'user haproxy', 'group haproxy'] as const).map(
                (line) => [line, ''] as const,
              )),
        ] as const)),
  ]);
  writeFileSync(file, text);
  const [command, ...args] = COMMANDS[name](folder, file);
  const running = start(SERVER_CORE, command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let told = '';
  for (const stream of [running.child.stdout, running.child.stderr]) {
    stream?.setEncoding('utf8').on('data', (more: string) => (told += more));
  }
  const stop = async () => {
    await running.stop();
    authority.remove();
    rmSync(folder, { recursive: true, force: true });
  };
  await listensOn(port, running).catch(async (error: unknown) => {
    await stop();
    throw new Error(told, { cause: error });
  });
  return {
    url: `https://127.0.0.1:${port}`,
    ca: authority.pem,
    told: () => told,
    folder,
    stop,
  };
}

function replaced(text: string, pairs: readonly (readonly [from: string, to: string])[]): string {
  return pairs.reduce((before, [from, to]) => {
    const after = before.replace(`${from}`, to);
    if (after === before) throw new Error(`not there: ${from}`);
    return after;
  }, text);
}

/** One process that stays in the foreground, so that it ends with these tests. */
const COMMANDS: Readonly<
  Record<ProxyName, (folder: string, file: string) => [string, ...string[]]>
> = {
  nginx(folder, file) {
    const main = join(folder, 'main.conf');
    mkdirSync(join(folder, 'kept'));
    writeFileSync(main, nginxAround(file, folder));
    return ['/usr/sbin/nginx', '-p', folder, '-c', main, '-e', 'stderr'];
  },
  HAProxy: (_folder, file) => ['/usr/sbin/haproxy', '-db', '-f', file],
};

/** What stands around the file of the gateway, with compression switched on as in many places. */
const nginxAround = (file: string, folder: string): string => `
daemon off;
master_process off;
pid ${folder}/nginx.pid;
error_log stderr warn;
events { worker_connections 4096; }
http {
  access_log off;
  gzip on;
  gzip_types text/xml text/plain application/json;
  client_body_temp_path ${folder}/kept/bodies;
  proxy_temp_path ${folder}/kept/answers;
  fastcgi_temp_path ${folder}/kept/unused;
  scgi_temp_path ${folder}/kept/unused;
  uwsgi_temp_path ${folder}/kept/unused;
  include ${file};
}
`;
