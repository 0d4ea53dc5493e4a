import { createLoginThrottle } from '../auth/login-throttle.ts';
import type { Clock } from '../clock.ts';
import { SESSION_LIFE } from '../sessions/session-store.ts';
import type { Link } from './link.ts';
import { createPrimaryEpochs } from './primary-epochs.ts';
import { LOGINS, loginsService } from './logins.ts';
import { createPrimaryMetrics, METRICS } from './metrics.ts';
import { createPrimaryPurgeLines } from './primary-purge-lines.ts';
import { createPrimarySessions } from './primary-sessions.ts';

/** What workers share where there is no Redis. It lives as long as the primary process. */
export interface Primary {
  /** Serves one more worker. @returns to be called when that worker is gone */
  attach(link: Link): () => void;
}

export function createPrimary(options: {
  clock: Clock;
  newToken: () => string;
  /** The longest lease that the configuration may name (ms). */
  longestLease: number;
  /** For how long workers of a primary process that has just died may still answer from what they read (ms). */
  orphanLease: number;
}): Primary {
  const attachEpochs = createPrimaryEpochs(options);
  const sessions = createPrimarySessions({ ...options, life: SESSION_LIFE });
  const purgeLines = createPrimaryPurgeLines();
  const logins = loginsService(createLoginThrottle(options));
  const metrics = createPrimaryMetrics();
  return {
    attach(link) {
      const detachEpochs = attachEpochs(link);
      link.serve('sessions', sessions);
      link.serve('purges', purgeLines);
      link.serve(LOGINS, logins);
      link.serve(METRICS, metrics.service);
      const leaveMetrics = metrics.join(link);
      return () => {
        detachEpochs();
        leaveMetrics();
      };
    },
  };
}
