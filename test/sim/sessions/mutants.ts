import type { Replacement } from '../mutants.ts';
import type { LookUpSettings } from './look-ups.ts';
import type { Weather } from './run.ts';

/** A fault, and the world that shows it best. */
export interface SessionMutant {
  readonly replacements: readonly Replacement[];
  /** Looked for by whole requests, in this weather; by look-ups unless given. */
  readonly requests?: Weather | 'any';
  readonly only?: Partial<LookUpSettings>;
}

const UNNOTED = 'freshness/unnoted.ts';
const SESSIONS = 'sessions/sessions.ts';
const LEASES = 'common/leases.ts';
const AS_IT_IS: Replacement = {
  file: UNNOTED,
  find: `    await store.session(name, { do: 'put', token, data: record, dirty: true });`,
  put: `    await store.session(name, { do: 'claim', token });
    await store.session(name, { do: 'put', token, data: record, dirty: record.dirty });`,
};

/** One place of a source, with something else in it. */
const instead = (file: string, find: string, put = ''): SessionMutant['replacements'] => [
  { file, find, put },
];

/** The faults that the simulation of sessions has to find. */
export const SESSION_MUTANTS: Readonly<Record<string, SessionMutant>> = {
  'a session that begins while Redis is away is kept, and noted, as a clean one': {
    replacements: [
      ...instead(SESSIONS, `{ ...data, dirty: true, version`, `{ ...data, dirty: false, version`),
      AS_IT_IS,
    ],
    requests: 'any',
  },
  'a session that begins while Redis is away is not noted': {
    replacements: instead(UNNOTED, `    await note(session);\n`),
    requests: 'any',
  },
  'a name that is taken when Redis is back stays what it was': {
    replacements: instead(
      UNNOTED,
      `    const { version } = record;\n`,
      `    const { version } = record;
    if ((await store.session(name, { do: 'peek' })).record !== undefined) return;\n`,
    ),
    requests: 'outages',
  },
  'a session that Redis has lost is noted as it was known last': {
    replacements: [
      ...instead(SESSIONS, `{ ...last, settles, dirty: true };`, `{ ...last, settles };`),
      AS_IT_IS,
    ],
    requests: 'any',
  },
  'a session that Redis has lost is noted without a wait for the lease of others': {
    replacements: instead(UNNOTED, `    if (shared) await sleep(lease * LEASE_MARGIN);\n`),
    requests: 'restarts',
  },
  'a catalog that another request has noted goes to the engine before the lease of others is over':
    {
      replacements: instead(
        'line/session-step.ts',
        `  if (named !== undefined) await sessions.settled(named);\n`,
      ),
      requests: 'beginnings',
    },
  'a change does not wait for the lease of others': {
    replacements: instead(SESSIONS, `if (lease > 0) await sleep(lease * LEASE_MARGIN);`),
  },
  'a change of the catalog does not wait for the lease of others': {
    replacements: instead(SESSIONS, `        await waitOut(lease, sleep);\n`),
  },
  'a change of all sessions does not wait for the lease of others': {
    replacements: instead(SESSIONS, `      await waitOut(renewed.others, sleep);\n`),
  },
  'a change of all sessions leaves what its gateway holds': {
    replacements: instead(SESSIONS, `      known.forget('all');\n`),
  },
  'a lease is waited out with no more than its length': {
    replacements: instead(LEASES, `LEASE_MARGIN = 1.1;`, `LEASE_MARGIN = 1;`),
    only: { faults: ['skewed clocks'] },
  },
  'a lease is counted from the answer': {
    replacements: instead(
      LEASES,
      `      const since = begin();
      using watching = watch(names);
      try {
        const reply = await ask();`,
      `      using watching = watch(names);
      try {
        const reply = await ask();
        const since = begin();`,
    ),
    only: { faults: ['slow links'] },
  },
  'a record is used after its lease': {
    replacements: instead(
      LEASES,
      `return now - start.now < length && wall >= start.wall && wall - start.wall < length;`,
      `return now - start.now < 9 * length && wall >= start.wall;`,
    ),
  },
  'a catalog that the store does not confirm is taken to the engine': {
    replacements: instead(SESSIONS, `return dirty([key]);`, `return true;`),
    only: { faults: ['outages'] },
  },
  'a catalog that another gateway has noted is not waited for': {
    replacements: instead(SESSIONS, `      if (left > 0) await sleep(left);\n`),
  },
  'a change of a session that others may know does not ask for their leases': {
    replacements: instead(UNNOTED, `(isRenewal && !shared)`, `isRenewal`),
    only: { form: 'redis', faults: ['restarts'] },
  },
  'the primary process does not note who uses a session': {
    replacements: instead(
      'freshness/memory-store.ts',
      `    if (!record.dirty) session.holders.note(holder.id, holder.lease);\n`,
    ),
    only: { form: 'workers' },
  },
  'the primary process lets the second of two catalogs pass': {
    replacements: instead(
      'freshness/memory-store.ts',
      ` else if (!isSameWork(session.data, call.data)) session.renewed = true;`,
    ),
    only: { form: 'workers' },
  },
  'what is held of a session is used while its catalog is being noted': {
    replacements: instead(SESSIONS, `    taking.set(key, over);\n`),
    only: { form: 'workers', gateways: 2, actors: 16, faults: ['slow links'] },
  },
};
