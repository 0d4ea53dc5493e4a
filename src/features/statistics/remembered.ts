import type { Clock } from '../../common/clock.ts';
import type { EventOf, GatewayEvent } from '../../common/events.ts';
import { foldObjectName } from '../../common/fold-case.ts';
import { inTurns } from '../../common/in-turn.ts';
import type { EventRows } from '../../observability/event-rows.ts';
import { addSums, noSums, type Sums, SUMS, tenths } from '../hour-report.ts';
import { addAnswer, createHour, wholeAtEngine } from './hour.ts';

/** Digests with figures of their own, and requests that are remembered. */
export const MAX_DIGESTS = 2_000;
export const MAX_REQUESTS = 10_000;
/** Time in which half of a sum fades (ms). */
const HALF_LIFE = 3 * 24 * 3_600_000;
export const MAX_USERS = 20;
/** Digests that make room together, worth least: to find them takes a look at all. */
const GO_AT_ONCE = MAX_DIGESTS / 4;
/** Entries looked at in one turn of the event loop; a thousand take a fifth of a millisecond. */
export const ENTRIES_AT_ONCE = 5_000;
/** Characters kept of names and of a statement. */
const LONGEST = 255;
const LONGEST_STATEMENT = 2_000;

type Answered = EventOf<'xmla-answered'>;

/** Names that the requests of one digest share; several names are one text. */
type Names = typeof NO_NAMES;
const NO_NAMES = { digest: '', subject: '', project: '', catalogs: '', cubes: '' };

/** Figures of one digest; sums fade by {@link HALF_LIFE}. Moments are ms of the wall clock. */
export type DigestFigures = typeof NO_FIGURES;
export const NO_FIGURES = {
  ...NO_NAMES,
  ...noSums(),
  /** Longest time of the engine. It does not fade. */
  engine_max_ms: 0,
  users: [] as string[],
  /** Begin of counting: a digest that made room for others begins anew. */
  since: 0,
  last_asked: 0,
  last_outcome: '',
  last_reason: '',
  /** Statement; '' where it is not kept, and for a Discover. */
  text: '',
};

/** Filter: texts must be equal; ended by `until` (wall clock, ms); took `slower` ms or more. */
export type RequestFilter = Partial<
  Record<'user' | 'project' | 'digest' | 'outcome' | 'reason' | 'id', string | undefined> &
    Record<'until' | 'slower', number | undefined>
>;

type CopyText = (text: string) => string;

const namesIn = (names: readonly string[], own: CopyText) =>
  own(names.join(', ').slice(0, LONGEST));
const namesOf = (event: Answered, own: CopyText): Names => ({
  digest: event.digest,
  subject: own(event.subject),
  project: own(event.project.slice(0, LONGEST)),
  catalogs: namesIn(event.catalogs, own),
  cubes: event.cubes === '?' ? event.cubes : namesIn(event.cubes, own),
});

export type Statistics = ReturnType<typeof createStatistics>;
/**
 * Remembers XMLA requests of this process, within bounds: digests that cost the engine most, the
 * last hour, the latest requests. A known digest costs a few looks into maps and some additions.
 */
export function createStatistics(parts: {
  readonly clock: Pick<Clock, 'now' | 'wall'>;
  readonly rows: EventRows;
  readonly names: Parameters<typeof createHour>[2];
}) {
  const { clock } = parts;
  const hour = createHour(parts.rows, clock, parts.names);
  const own = createCopies();
  const digests = createDigests(clock, own);
  const recent = createRecent(own);

  function noteAnswer(event: Answered, at: number): void {
    const row = digests.note(event, at);
    recent.note(event, row ?? namesOf(event, own), at);
  }

  return {
    on(event: GatewayEvent): void {
      const at = clock.wall();
      hour.on(event, at);
      // A client without a login could wash out all others; the log has its requests.
      if (event.type === 'xmla-answered' && event.principal !== '') noteAnswer(event, at);
    },
    configure: digests.configure,
    figures: digests.figures,
    hour: hour.report,
    named(digest: string): Pick<Names, 'project' | 'catalogs' | 'cubes'> {
      const { project = '', catalogs = '', cubes = '' } = digests.find(digest) ?? {};
      return { project, catalogs, cubes };
    },
    /** Counts entries of known digests by project, as the hour names it. */
    async countByProject(each: Iterable<{ readonly digest: string }>) {
      const known = new Map<DigestFigures, number>();
      await inTurns(each, ENTRIES_AT_ONCE, ({ digest }) => {
        const row = digests.find(digest);
        if (row !== undefined) known.set(row, (known.get(row) ?? 0) + 1);
      });
      return Array.from(known, ([row, count]) => [hour.labelOf(projectOf(row)), count] as const);
    },
    requests: recent.requests,
  };
}

function createDigests(clock: Pick<Clock, 'now'>, own: CopyText) {
  const digests = new Map<string, DigestFigures>();
  /** Sums of digests that made room for others, and of answers without one. */
  const others = noSums();
  let keepsText = false;
  const began = clock.now();
  /** Weight of what is added now: it grows, so that sums fade unchanged, for 8 years. */
  const weightNow = () => 2 ** ((clock.now() - began) / HALF_LIFE);

  function addRow(event: Answered, since: number): DigestFigures {
    if (digests.size >= MAX_DIGESTS) {
      for (const row of leastWorth([...digests.values()], GO_AT_ONCE)) {
        addSums(others, row);
        digests.delete(row.digest);
      }
    }
    const row = { ...NO_FIGURES, ...namesOf(event, own), users: [own(event.principal)], since };
    digests.set(row.digest, row);
    return row;
  }

  return {
    find: (digest: string) => digests.get(digest),
    note(event: Answered, at: number): DigestFigures | undefined {
      const weight = weightNow();
      if (event.digest === '') {
        addAnswer(others, event, weight);
        return undefined;
      }
      const row = digests.get(event.digest) ?? addRow(event, at);
      addAnswer(row, event, weight);
      const { principal, outcome } = event;
      row.engine_max_ms = Math.max(row.engine_max_ms, wholeAtEngine(event) ?? 0);
      row.last_asked = at;
      row.last_outcome = outcome.kind;
      row.last_reason = outcome.detail ?? '';
      if (keepsText && row.text === '')
        row.text = copyOf(event.statement.slice(0, LONGEST_STATEMENT));
      const { users } = row;
      if (users.length < MAX_USERS && !users.includes(principal)) users.push(own(principal));
      return row;
    },
    /** With `text: off` statements are forgotten. */
    configure(settings: { readonly text: 'on' | 'off' }): void {
      keepsText = settings.text === 'on';
      if (!keepsText) for (const row of digests.values()) row.text = '';
    },
    /** Figures as of now. The users must not be changed. */
    figures() {
      const weight = weightNow();
      const totals = faded(others, weight);
      const each = Array.from(digests.values(), (row) => ({ ...row, ...faded(row, weight) }));
      for (const row of each) addSums(totals, row);
      return { totals, digests: each };
    },
  };
}

/** Finds the rows that are worth least; of equals the newest. */
function leastWorth(rows: readonly DigestFigures[], count: number): readonly DigestFigures[] {
  const worths = new Float64Array(rows.map(worthOf));
  const sorted = worths.toSorted();
  const limit = sorted[count - 1] ?? 0;
  /** Rows of just that worth that are among them. */
  let left = count - sorted.indexOf(limit);
  const found: DigestFigures[] = [];
  for (let at = rows.length - 1; at >= 0; at -= 1) {
    const row = rows[at];
    const worth = worths[at] ?? 0;
    if (row === undefined || worth > limit || (worth === limit && left === 0)) continue;
    if (worth === limit) left -= 1;
    found.push(row);
  }
  return found;
}

/**
 * Engine time asked for or saved; of digests that cost nothing, the asks. In steps of some 4 %:
 * of equal worths the newest make room, else no new digest would ever be worth more.
 */
const worthOf = ({ engine_ms, saved_ms, asks }: Sums): number =>
  Math.round(16 * Math.log2(1 + engine_ms + saved_ms + asks));

function faded(sums: Sums, weight: number): Sums {
  const now = noSums();
  for (const name of SUMS) now[name] = sums[name] / weight;
  return now;
}

type Named = Pick<Names, 'project' | 'catalogs'>;
/** Project by the path, or else by the first catalog. */
const projectOf = ({ project, catalogs }: Named) => project || (catalogs.split(', ', 1)[0] ?? '');

export const isOfProject = (names: Named, wanted: string | undefined): boolean =>
  wanted === undefined || foldObjectName(projectOf(names)) === foldObjectName(wanted);

/** Copies a text: a part of a text would keep all of it in memory (V8). */
const copyOf = (text: string) => Buffer.from(text, 'utf8').toString('utf8');

const MAX_TEXTS = 1_000;

function createCopies(): CopyText {
  const copies = new Map<string, string>();
  return function own(text) {
    const known = copies.get(text);
    if (known !== undefined) return known;
    const copy = copyOf(text);
    if (copies.size === MAX_TEXTS) copies.clear();
    copies.set(copy, copy);
    return copy;
  };
}

const textColumn = (): string[] => [];
const numberColumn = () => new Float64Array(MAX_REQUESTS);

/**
 * Latest requests, in columns that are used again: an object for each request would outlive V8's
 * young memory, which takes 8 % of a hit.
 */
function createRecent(own: CopyText) {
  const id = textColumn();
  const user = textColumn();
  const address = textColumn();
  const program = textColumn();
  const project = textColumn();
  const catalogs = textColumn();
  const cubes = textColumn();
  const digest = textColumn();
  const outcome = textColumn();
  const reason = textColumn();
  const at = numberColumn();
  const status = numberColumn();
  const bytes = numberColumn();
  const ms = numberColumn();
  const waited_ms = numberColumn();
  const engine_ms = numberColumn();
  const stored: (boolean | null)[] = [];
  let count = 0;

  const rowAt = (i: number) => ({
    id: id[i] ?? '',
    at: at[i] ?? 0,
    user: user[i] ?? '',
    project: project[i] ?? '',
    catalogs: catalogs[i] ?? '',
    cubes: cubes[i] ?? '',
    digest: digest[i] ?? '',
    outcome: outcome[i] ?? '',
    reason: reason[i] ?? '',
    status: status[i] ?? 0,
    bytes: bytes[i] ?? 0,
    ms: ms[i] ?? 0,
    waited_ms: waited_ms[i] ?? 0,
    engine_ms: engine_ms[i] ?? 0,
    stored: stored[i] ?? null,
    address: address[i] ?? '',
    program: program[i] ?? '',
  });
  type Row = ReturnType<typeof rowAt>;
  const told = ({ address, program, ...request }: Row) => ({
    ...request,
    at: new Date(request.at).toISOString(),
    client: `${address} ${program}`.trim(),
  });

  return {
    note(event: Answered, names: Names, time: number): void {
      // The oldest makes room.
      const i = count % MAX_REQUESTS;
      count += 1;
      id[i] = event.id;
      at[i] = time;
      user[i] = own(event.principal);
      address[i] = own(event.address);
      program[i] = event.program;
      digest[i] = names.digest;
      project[i] = names.project;
      catalogs[i] = names.catalogs;
      cubes[i] = names.cubes;
      outcome[i] = event.outcome.kind;
      reason[i] = event.outcome.detail ?? '';
      status[i] = event.status;
      bytes[i] = event.bytes;
      ms[i] = tenths(event.milliseconds);
      waited_ms[i] = tenths(event.engine?.waited ?? 0);
      engine_ms[i] = tenths(event.engine?.last ?? 0);
      stored[i] = event.outcome.kind === 'miss' ? (event.outcome.stored ?? null) : null;
    },
    /** Finds the newest first: how many, and the first `most`. */
    requests({ project, until = Infinity, slower = 0, ...texts }: RequestFilter, most: number) {
      const wanted = Object.entries(texts) as [keyof typeof texts, string | undefined][];
      const fits = (one: Row) =>
        one.at <= until &&
        one.ms >= slower &&
        isOfProject(one, project) &&
        wanted.every(([name, text]) => (text ?? one[name]) === one[name]);
      const kept = Math.min(count, MAX_REQUESTS);
      const newestFirst = Array.from({ length: kept }, (_, n) => (count - 1 - n) % MAX_REQUESTS);
      const found = newestFirst.map(rowAt).filter(fits);
      return { total: found.length, requests: found.slice(0, most).map(told) };
    },
  };
}
