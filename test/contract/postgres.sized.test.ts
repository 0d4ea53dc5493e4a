import { createPostgresStorage } from '../../src/storage/postgres.ts';
import { postgresConfig } from '../integration/storage/postgres-house.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { describeStorage } from './storage-contract.ts';
import { shared } from '../support/opened.ts';

const server = shared(() => startPostgres());

describeStorage('PostgreSQL', async () => {
  const house = await server.house();
  return {
    storage: (parts) => createPostgresStorage({ config: postgresConfig(house.url), ...parts }),
    async age(milliseconds) {
      await server.ask(
        `UPDATE ${house.name}.mdx_gateway_storage
         SET roles_shared_until = roles_shared_until - interval '${milliseconds} milliseconds'`,
      );
    },
    // It goes with the server.
    remove: async () => {},
  };
});
