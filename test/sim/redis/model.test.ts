import { randomUUID } from 'node:crypto';
import { describe } from '@jest/globals';
import { sessionCalls } from '../../support/session-calls.ts';
import { sessionLeaseContract } from '../../support/session-lease-contract.ts';
import { sessionStoreContract } from '../../support/session-store-contract.ts';
import { createRedisModel } from './model.ts';

const LONGEST_LEASE = 60_000;

/** Of a server that all gateways have known for longer than any lease. */
function openModel() {
  let now = 1_000;
  const model = createRedisModel({
    ...{ now: () => now, newToken: randomUUID, longestLease: LONGEST_LEASE },
  });
  void model.of({ id: 'before', lease: 0 }).read([]);
  now += 3 * LONGEST_LEASE;
  void model.of({ id: 'before', lease: 0 }).read([]);
  now += 3 * LONGEST_LEASE;
  return model;
}

describe('the model of Redis keeps sessions as its scripts do', () => {
  sessionStoreContract(async () => ({
    store: sessionCalls(openModel().of({ id: 'alone', lease: 1_000 })),
    close: async () => {},
  }));

  let model = openModel();
  sessionLeaseContract(
    async (lease) => sessionCalls(model.of({ id: randomUUID(), lease })),
    async () => {
      model = openModel();
    },
  );
});
