import type { Permissions } from '../../auth/authenticator.ts';
import type { Outcome } from '../../common/events.ts';
import { REASONS } from '../../common/reasons.ts';
import {
  type AdminPages,
  moment,
  oneOf,
  page,
  PAGE,
  text,
  whole,
  word,
} from '../../http/admin-page.ts';
import { type SharedStatistics, SORTS } from './shared-statistics.ts';

const DIAGNOSED = 50;
const OUTCOMES = ['hit', 'miss', 'bypass', 'gateway'] satisfies Outcome['kind'][];
const isReason = (word: string) =>
  Object.values(REASONS).some((words) => Object.hasOwn(words, word));
const FILTER = {
  user: text,
  project: text,
  digest: text,
  outcome: oneOf(OUTCOMES).optional(),
  reason: word(
    'a word of Cache-Status (docs/OBSERVABILITY.md), or empty',
    (reason) => reason === '' || isReason(reason),
  ).optional(),
  id: text,
  until: moment.optional(),
  slower: whole(0, 999_999_999, 0, ' of milliseconds'),
};

export function statisticsPages(
  statistics: Pick<SharedStatistics, 'statistics' | 'requests' | 'entries'>,
  permissions: Pick<Permissions, 'mayAdminister'>,
): AdminPages {
  const none = { limit: 0, offset: 0 };
  const countOf = async (outcome: string) =>
    [outcome, (await statistics.requests({ outcome }, none)).total] as const;
  return {
    admin: {
      '/admin/statistics': page(
        { sort: oneOf(SORTS.digests).default('cost'), project: text, digest: text, ...PAGE },
        (query, principal) => statistics.statistics(query, permissions.mayAdminister(principal)),
      ),
      '/admin/requests': page({ ...FILTER, ...PAGE }, ({ limit, offset, ...filter }) =>
        statistics.requests(filter, { limit, offset }),
      ),
      '/admin/entries': page(
        { sort: oneOf(SORTS.entries).default('hits'), ...PAGE },
        statistics.entries,
      ),
    },
    diagnosis: {
      statistics: () => statistics.statistics({ ...none, sort: 'cost', limit: DIAGNOSED }),
      requests: async () => Object.fromEntries(await Promise.all(OUTCOMES.map(countOf))) as object,
    },
  };
}
