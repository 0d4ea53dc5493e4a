import type { Outcome } from '../events.ts';

/**
 * The value of the header Cache-Status (RFC 9211).
 * @param ttl milliseconds for which a hit may still be used
 */
export function cacheStatus(outcome: Outcome, ttl = 0): string {
  switch (outcome.kind) {
    case 'hit':
      return `mdx-gateway; hit; ttl=${Math.floor(ttl / 1000)}; detail=${outcome.detail}`;
    case 'miss': {
      const stored = outcome.stored === true ? '; stored' : '';
      const detail = outcome.detail === undefined ? '' : `; detail=${outcome.detail}`;
      return `mdx-gateway; fwd=miss${stored}${detail}`;
    }
    case 'bypass':
      return `mdx-gateway; fwd=bypass; detail=${outcome.detail}`;
    case 'gateway':
      return `mdx-gateway; detail=${outcome.detail}`;
  }
}
