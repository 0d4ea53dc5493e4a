import { createBodyAccount, type BodyAccount } from '../common/body-account.ts';
import type { LimitsConfig } from '../config/config.ts';
import { createBodiesInUse, type BodiesInUse } from '../cache/memory-tier.ts';

/** What counts the bodies of this process. It outlives every reload. */
export interface Bodies {
  readonly account: BodyAccount;
  readonly inUse: BodiesInUse;
}

/** @param limits those in force now */
export function createBodies(limits: () => Pick<LimitsConfig, 'in_flight' | 'queue'>): Bodies {
  const account = createBodyAccount(limits);
  return { account, inUse: createBodiesInUse(account) };
}
