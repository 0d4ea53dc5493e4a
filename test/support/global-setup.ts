import { randomInt } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { ensureDebianPackages } from './debian-packages.ts';
import { postgresProgram } from './postgres-server.ts';

/** Where the program keeps compiled code by itself, once it has read its first files. */
const COMPILED = fileURLToPath(new URL('../../node_modules/.cache/mdx-gateway', import.meta.url));

/**
 * Sees to it that the services and programs exist which the tests start for themselves. The processes that tests start
 * share what Node.js compiled of the sources.
 */
// oxlint-disable-next-line import/no-default-export -- jest takes the default export
export default async function globalSetup(): Promise<void> {
  process.env['NODE_COMPILE_CACHE'] = COMPILED;
  // In which forms the stand-in engines send their answers: see framing.ts.
  process.env['FRAMING_SEED'] ??= String(randomInt(2 ** 31));
  console.log(`FRAMING_SEED=${process.env['FRAMING_SEED']}`);
  await ensureDebianPackages([
    { name: 'redis-server', probe: 'redis-server' },
    { name: 'openssl', probe: 'openssl' },
    {
      name: 'postgresql',
      // Looked for anew each time, since its path holds the version.
      get probe() {
        return postgresProgram('postgres');
      },
    },
  ]);
}
