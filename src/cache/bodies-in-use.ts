import type { BodyAccount } from '../common/body-account.ts';

/**
 * Bodies of kept answers that are still needed. Each counts once, however many clients need it, and not while tier 1
 * counts it: one that tier 1 drops, for others or by a purge, stays in memory until the last client has it.
 */
export interface BodiesInUse {
  /** Needs a body. Returns what ends that; calling it twice does no harm. */
  hold(body: Buffer): () => void;
  /** Tier 1 counts it from now on, or once more. */
  kept(body: Buffer): void;
  /** Tier 1 counts it no longer, or once less. */
  dropped(body: Buffer): void;
}

interface Use {
  readonly holders: number;
  /** How often tier 1 counts it. */
  readonly kept: number;
}

const UNUSED: Use = { holders: 0, kept: 0 };

export function createBodiesInUse(account: Pick<BodyAccount, 'countSending'>): BodiesInUse {
  const uses = new Map<Buffer, Use>();

  function change(body: Buffer, holders: number, kept: number): void {
    const before = uses.get(body) ?? UNUSED;
    const after = { holders: before.holders + holders, kept: before.kept + kept };
    if (after.holders === 0 && after.kept === 0) uses.delete(body);
    else uses.set(body, after);
    if (isCounted(before) === isCounted(after)) return;
    account.countSending(isCounted(after) ? body.length : -body.length);
  }

  return {
    hold(body) {
      change(body, 1, 0);
      let held = true;
      return () => {
        if (held) change(body, -1, 0);
        held = false;
      };
    },
    kept: (body) => change(body, 0, 1),
    dropped: (body) => change(body, 0, -1),
  };
}

const isCounted = ({ holders, kept }: Use) => holders > 0 && kept === 0;
