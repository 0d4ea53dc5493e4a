import type { BodyAccount, Share } from '../../body-account.ts';
import type { GzipVariant } from './gzip-variant.ts';
import type { StoredAnswer } from './stored-answer.ts';

/** Makes compressed answers for those who will ask again; nobody waits for it. */
export interface GzipMaker {
  /**
   * Makes one, and hands it to `keep`. Does nothing while others are being made, while there is no room, or when it
   * was tried for this answer before: one that did not pay then would not pay now. Never throws.
   */
  prepare(answer: StoredAnswer, keep: (variant: GzipVariant) => void): void;
}

/**
 * @param options.most how many are made at one time: logins need the threads that compress as well. Who is
 *   turned away comes again with the next hit.
 */
export function createGzipMaker(options: {
  make: (answer: StoredAnswer) => Promise<GzipVariant | undefined>;
  most: number;
  account: Pick<BodyAccount, 'open'>;
}): GzipMaker {
  const tried = new WeakSet<StoredAnswer>();
  let busy = 0;

  async function run(
    answer: StoredAnswer,
    keep: (variant: GzipVariant) => void,
    room: Share,
  ): Promise<void> {
    try {
      const variant = await options.make(answer);
      if (variant !== undefined) keep(variant);
    } catch {
      // The answer is sent as it is, as before; nothing depends on a shorter one.
    } finally {
      busy -= 1;
      room.release();
    }
  }

  return {
    prepare(answer, keep) {
      if (busy >= options.most || tried.has(answer)) return;
      const room = options.account.open('value');
      if (!room.grow(answer.body.length)) return;
      tried.add(answer);
      busy += 1;
      void run(answer, keep, room);
    },
  };
}
