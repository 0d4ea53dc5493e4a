import type { Clock } from '../common/clock.ts';
import type { GatewayEvent } from '../common/events.ts';
import { foldObjectName } from '../common/fold-case.ts';
import { addAnswer, addSums, createHour, noSums, type Sums, SUMS, wholeAtEngine } from './hour.ts';

/** Digests that have figures of their own, and requests that are remembered. */
export const MAX_DIGESTS = 2_000;
export const MAX_REQUESTS = 10_000;
/** After so long half of a sum is left (ms). */
const HALF_LIFE = 3 * 24 * 3_600_000;
/** Users of a digest that are told apart. */
export const MAX_USERS = 20;
/** Where a digest needs room, so many go at once, those that are worth least: to find them takes a look at all. */
const GO_AT_ONCE = MAX_DIGESTS / 4;
/** Of names and of a statement, so much is kept (characters). */
const LONGEST = 255;
const LONGEST_STATEMENT = 2_000;

type Answered = Extract<GatewayEvent, { readonly type: 'xmla-answered' }>;

/** What the requests of one digest have in common; several names are one text. */
type Names = typeof NO_NAMES;
const NO_NAMES = { digest: '', subject: '', project: '', catalogs: '', cubes: '' };

/** What is known of one digest. Its sums fade by {@link HALF_LIFE}. Moments are ms of the wall clock. */
export type DigestFigures = typeof NO_FIGURES;
export const NO_FIGURES = {
  ...NO_NAMES,
  ...noSums(),
  /** The longest that the engine needed. It does not fade. */
  engine_max_ms: 0,
  /** At most {@link MAX_USERS}. */
  users: [] as string[],
  /** Since when it is counted: one that made room for others begins anew. */
  since: 0,
  last_asked: 0,
  last_outcome: '',
  last_reason: '',
  /** The statement; '' where it is not kept, and for a Discover. */
  text: '',
};

/** Of requests: each text that is given must be equal; ended at `until` or before (ms of the wall clock); took `slower` ms or more. */
export type RequestFilter = Partial<
  Record<'user' | 'project' | 'digest' | 'outcome' | 'reason' | 'id', string | undefined> &
    Record<'until' | 'slower', number | undefined>
>;

export type Statistics = ReturnType<typeof createStatistics>;
/**
 * What this process remembers of XMLA requests: figures of the digests that cost the engine most, of the last hour, and the
 * latest requests. All are bounded. A digest that is known costs a few looks into maps and some additions.
 * @param parts.names the projects that are told by their names
 */
export function createStatistics(parts: {
  readonly clock: Clock;
  readonly names: Parameters<typeof createHour>[1];
}) {
  const { clock } = parts;
  const hour = createHour(clock, parts.names);
  const digests = new Map<string, DigestFigures>();
  /** Of digests that gave way to others, and of what has none. */
  const others = noSums();
  let keepsText = false;
  const own = createCopies();
  const recent = createRecent(own);
  const began = clock.now();
  /** What is added now weighs that much more than what was added first, so that sums need not be changed to fade: for 8 years. */
  const weightNow = () => 2 ** ((clock.now() - began) / HALF_LIFE);

  const textOf = (names: readonly string[]) => own(names.join(', ').slice(0, LONGEST));
  const namesOf = ({ digest, subject, project, catalogs, cubes }: Answered): Names => ({
    digest,
    subject: own(subject),
    project: own(project.slice(0, LONGEST)),
    catalogs: textOf(catalogs),
    cubes: cubes === '?' ? cubes : textOf(cubes),
  });

  function makeRoom(): void {
    if (digests.size < MAX_DIGESTS) return;
    const rows = [...digests.values()];
    const worths = new Float64Array(rows.map(worthOf));
    const sorted = worths.toSorted();
    const least = sorted[GO_AT_ONCE - 1] ?? 0;
    /** Of those that are worth that, so many go. */
    let left = GO_AT_ONCE - sorted.indexOf(least);
    for (let at = rows.length - 1; at >= 0; at -= 1) {
      const row = rows[at];
      const worth = worths[at] ?? 0;
      if (row === undefined || worth > least || (worth === least && left === 0)) continue;
      if (worth === least) left -= 1;
      addSums(others, row);
      digests.delete(row.digest);
    }
  }

  function newRow(event: Answered, since: number): DigestFigures {
    makeRoom();
    const row = { ...NO_FIGURES, ...namesOf(event), users: [own(event.principal)], since };
    digests.set(row.digest, row);
    return row;
  }

  function noteAnswer(event: Answered, at: number): void {
    const weight = weightNow();
    if (event.digest === '') {
      addAnswer(others, event, weight);
      return recent.note(event, namesOf(event), at);
    }
    const row = digests.get(event.digest) ?? newRow(event, at);
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
    recent.note(event, row, at);
  }

  return {
    /** Subscribes the statistics to the events. */
    on(event: GatewayEvent): void {
      const at = clock.wall();
      hour.on(event, at);
      // Who has no login could wash out all others; the log has them.
      if (event.type === 'xmla-answered' && event.principal !== '') noteAnswer(event, at);
    },
    /** @param settings.text whether statements are kept; with `off` they are forgotten */
    configure(settings: { readonly text: 'on' | 'off' }): void {
      keepsText = settings.text === 'on';
      if (!keepsText) for (const row of digests.values()) row.text = '';
    },
    /** As of now; what is told of users must not be changed. */
    figures: () => {
      const weight = weightNow();
      const totals = faded(others, weight);
      const each = Array.from(digests.values(), (row) => ({ ...row, ...faded(row, weight) }));
      for (const row of each) addSums(totals, row);
      return { totals, digests: each };
    },
    hour: hour.report,
    /** The names of a digest that is known; else they are empty. */
    named(digest: string): Pick<Names, 'project' | 'catalogs' | 'cubes'> {
      const { project = '', catalogs = '', cubes = '' } = digests.get(digest) ?? {};
      return { project, catalogs, cubes };
    },
    /** How many of the entries are of each project, as the hour names it. Those of digests that are not known are left out. */
    countByProject(each: Iterable<{ readonly digest: string }>): readonly [string, number][] {
      const known = Map.groupBy(each, ({ digest }) => digests.get(digest));
      return [...known].flatMap(([row, { length }]) =>
        row ? [[hour.labelOf(projectOf(row)), length] satisfies [string, number]] : [],
      );
    },
    requests: recent.requests,
  };
}

/**
 * What the engine was asked to do for it, or would have been; of those that cost nothing, how often it was asked. In steps of
 * some 4 %: of those that are worth the same the newest make room, else none of them would ever be worth more.
 */
const worthOf = ({ engine_ms, saved_ms, asks }: Sums): number =>
  Math.round(16 * Math.log2(1 + engine_ms + saved_ms + asks));

function faded(sums: Sums, weight: number): Sums {
  const now = noSums();
  for (const name of SUMS) now[name] = sums[name] / weight;
  return now;
}

type Named = Pick<Names, 'project' | 'catalogs'>;
/** By the path, or where that names none by the first catalog. Several catalogs are one text. */
const projectOf = ({ project, catalogs }: Named) => project || (catalogs.split(', ', 1)[0] ?? '');

/** Compared as a purge does. */
export const isOfProject = (names: Named, wanted: string | undefined): boolean =>
  wanted === undefined || foldObjectName(projectOf(names)) === foldObjectName(wanted);

/** A part of a text keeps all of it in memory (V8); this does not. */
const copyOf = (text: string) => Buffer.from(text, 'utf8').toString('utf8');

/** Texts that are found again, as most are. */
const MAX_TEXTS = 1_000;

/** Makes copies: a name may be a part of a body. */
function createCopies(): (text: string) => string {
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

const NO_REQUEST = {
  id: '',
  /** When it ended (ms of the wall clock). */
  at: 0,
  user: '',
  project: '',
  catalogs: '',
  cubes: '',
  digest: '',
  outcome: '',
  reason: '',
  status: 0,
  bytes: 0,
  ms: 0,
  waited_ms: 0,
  engine_ms: 0,
  stored: null as boolean | null,
};

type Remembered = { request: typeof NO_REQUEST; address: string; program: string };
/** As GET /admin/requests tells it. */
function told({ request, address, program }: Remembered) {
  const client = `${address} ${program}`.trim();
  return { ...request, at: new Date(request.at).toISOString(), client };
}

/**
 * The latest requests. Rows are used again: one made for each request would outlive the young memory of V8, which takes 8 % of
 * a hit.
 * @param own makes copies of texts
 */
function createRecent(own: (text: string) => string) {
  const rows: Remembered[] = [];
  let count = 0;
  return {
    note(event: Answered, names: Names, time: number): void {
      const { engine, outcome } = event;
      // In the place of the oldest.
      const at = count % MAX_REQUESTS;
      const row = (rows[at] ??= { request: { ...NO_REQUEST }, address: '', program: '' });
      const { request } = row;
      count += 1;
      request.id = event.id;
      request.at = time;
      request.user = own(event.principal);
      row.address = own(event.address);
      row.program = event.program;
      request.digest = names.digest;
      request.project = names.project;
      request.catalogs = names.catalogs;
      request.cubes = names.cubes;
      request.outcome = outcome.kind;
      request.reason = outcome.detail ?? '';
      request.status = event.status;
      request.bytes = event.bytes;
      request.ms = tenths(event.milliseconds);
      request.waited_ms = tenths(engine?.waited ?? 0);
      request.engine_ms = tenths(engine?.last ?? 0);
      request.stored = outcome.kind === 'miss' ? (outcome.stored ?? null) : null;
    },
    /** Those that the filter lets through, the newest first: how many, and the first `most`. */
    requests({ project, until = Infinity, slower = 0, ...texts }: RequestFilter, most: number) {
      const wanted = Object.entries(texts) as [keyof typeof texts, string | undefined][];
      const fits = (one: typeof NO_REQUEST) =>
        one.at <= until &&
        one.ms >= slower &&
        isOfProject(one, project) &&
        wanted.every(([name, text]) => (text ?? one[name]) === one[name]);
      const oldest = count % MAX_REQUESTS;
      const inOrder = [...rows.slice(oldest), ...rows.slice(0, oldest)].toReversed();
      const found = inOrder.filter(({ request }) => fits(request));
      return { total: found.length, requests: found.slice(0, most).map(told) };
    },
  };
}

/** To a tenth. */
export const tenths = (figure: number): number => Math.round(figure * 10) / 10;
