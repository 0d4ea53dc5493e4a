import { ensureDebianPackages } from './debian-packages.ts';
import { postgresProgram } from './postgres-server.ts';

/** Sees to it that the services and programs exist which the tests start for themselves. */
// oxlint-disable-next-line import/no-default-export -- jest takes the default export
export default async function globalSetup(): Promise<void> {
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
