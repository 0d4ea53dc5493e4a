import { startPostgres, type PostgresServer } from './postgres-server.ts';
import { startTestGateway, type TestGateway } from './test-gateway.ts';

/** The storage drivers that a gateway can be configured with. */
export const DRIVERS = ['sqlite', 'postgres', 'http'] as const;
export type Driver = (typeof DRIVERS)[number];

/** One for all gateways of a test file. */
let postgres: Promise<PostgresServer> | undefined;

/** Ends the PostgreSQL that {@link startDriver} started, if it did; after all its gateways are closed. */
export async function closeDrivers(): Promise<void> {
  const started = postgres;
  postgres = undefined;
  await (await started)?.close();
}

/**
 * Starts a gateway in this process over an empty storage: a file of its own, a schema of its own in a real
 * PostgreSQL, or a second gateway to which the credentials of the clients are passed on.
 * @param settings further settings of the gateway
 */
export async function startDriver(
  driver: Driver,
  settings: Readonly<Record<string, unknown>> = {},
): Promise<TestGateway> {
  switch (driver) {
    case 'sqlite':
      return startTestGateway(settings);
    case 'postgres': {
      postgres ??= startPostgres();
      const { url } = await (await postgres).house();
      // No test of these is about time, and a busy machine may take some.
      return startTestGateway({ ...settings, storage: { driver, url, timeout: '10s' } });
    }
    case 'http': {
      const remote = await startTestGateway(settings);
      const storage = { driver, url: remote.url };
      const gateway = await startTestGateway({ ...settings, storage }).catch(
        async (error: unknown) => {
          await remote.close();
          throw error;
        },
      );
      return {
        ...gateway,
        async close() {
          await gateway.close();
          await remote.close();
        },
      };
    }
  }
}
