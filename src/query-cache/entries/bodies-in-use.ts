import type { BodyAccount } from '../../body-account.ts';
import { createTransientMap } from '../../transient-map.ts';

/**
 * Bodies of kept answers that somebody still needs. Each counts once, however many need it, and not while tier 1
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
  holders: number;
  /** How often tier 1 counts it. */
  kept: number;
}

export function createBodiesInUse(account: Pick<BodyAccount, 'countSending'>): BodiesInUse {
  const uses = createTransientMap<Buffer, Use>();

  function change(body: Buffer, holders: number, kept: number): void {
    const use = uses.get(body) ?? { holders: 0, kept: 0 };
    const before = isCounted(use);
    use.holders += holders;
    use.kept += kept;
    if (use.holders === 0 && use.kept === 0) uses.delete(body);
    else uses.set(body, use);
    const after = isCounted(use);
    if (before !== after) account.countSending(after ? body.length : -body.length);
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

function isCounted({ holders, kept }: Use): boolean {
  return holders > 0 && kept === 0;
}
