import type { Replacement } from '../mutants.ts';
import type { Weather } from './run.ts';

/** A fault, and the weather that shows it best. */
interface SessionMutant {
  readonly replacements: readonly Replacement[];
  readonly only?: Weather;
}

const UNNOTED = 'freshness/unnoted.ts';
const SESSIONS = 'sessions/sessions.ts';
const AS_IT_IS: Replacement = {
  file: UNNOTED,
  find: `    await store.session(name, { do: 'put', token, data: record, dirty: true });`,
  put: `    await store.session(name, { do: 'claim', token });
    await store.session(name, { do: 'put', token, data: record, dirty: record.dirty });`,
};

/** The faults that the oracle of sessions has to find. */
export const SESSION_MUTANTS: Readonly<Record<string, SessionMutant>> = {
  'a session that begins while Redis is away is kept, and noted, as a clean one': {
    replacements: [
      {
        file: SESSIONS,
        find: `{ ...data, dirty: true, version`,
        put: `{ ...data, dirty: false, version`,
      },
      AS_IT_IS,
    ],
  },
  'a session that begins while Redis is away is not noted': {
    replacements: [{ file: UNNOTED, find: `    await note(session);\n`, put: `` }],
  },
  'a name that is taken when Redis is back stays what it was': {
    only: 'outages',
    replacements: [
      {
        file: UNNOTED,
        find: `    const { version } = record;\n`,
        put: `    const { version } = record;
    if ((await store.session(name, { do: 'peek' })).record !== undefined) return;\n`,
      },
    ],
  },
  'a session that Redis has lost is noted as it was known last': {
    replacements: [
      { file: SESSIONS, find: `{ ...last, settles, dirty: true };`, put: `{ ...last, settles };` },
      AS_IT_IS,
    ],
  },
  'a session that Redis has lost is noted without a wait for the lease of others': {
    only: 'restarts',
    replacements: [
      { file: UNNOTED, find: `    if (shared) await sleep(lease * LEASE_MARGIN);\n`, put: `` },
    ],
  },
  'a catalog that another request has noted goes to the engine before the lease of others is over':
    {
      only: 'beginnings',
      replacements: [
        {
          file: 'line/session-step.ts',
          find: `  if (named !== undefined) await sessions.settled(named);\n`,
          put: ``,
        },
      ],
    },
  'a change does not wait for the lease of others': {
    replacements: [
      {
        file: SESSIONS,
        find: `if (lease > 0) await sleep(lease * LEASE_MARGIN);`,
        put: ``,
      },
    ],
  },
};
