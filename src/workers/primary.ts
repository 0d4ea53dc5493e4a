import { createLoginThrottle } from '../auth/login-throttle.ts';
import type { Clock } from '../common/clock.ts';
import type { Link } from './link.ts';
import { LOGINS, loginsService } from './logins.ts';
import { createPrimaryMetrics, METRICS } from './metrics.ts';
import { createPrimaryFreshness } from './shared-freshness.ts';

/** What workers share where there is no Redis. It lives as long as the primary process. */
export interface Primary {
  /** Serves one more worker. @returns to be called when that worker is gone */
  attach(link: Link): () => void;
}

export function createPrimary(options: {
  clock: Clock;
  newToken: () => string;
  /** For how long workers of a primary process that has just died may still answer from what they read (ms). */
  orphanLease: number;
}): Primary {
  const attachFreshness = createPrimaryFreshness(options);
  const logins = loginsService(createLoginThrottle(options));
  const metrics = createPrimaryMetrics();
  return {
    attach(link) {
      const detachFreshness = attachFreshness(link);
      link.serve(LOGINS, logins);
      link.serve(METRICS, metrics.service);
      const leaveMetrics = metrics.join(link);
      return () => {
        detachFreshness();
        leaveMetrics();
      };
    },
  };
}
