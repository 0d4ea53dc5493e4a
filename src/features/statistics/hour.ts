import {
  addSums,
  BUCKETS,
  firstMinute,
  GROWTH,
  type HourReport,
  LEAST,
  MINUTE,
  MINUTES,
  NO_ROW,
  OTHERS,
  type Row,
  type Sums,
} from '../hour-report.ts';
import type { Clock } from '../../common/clock.ts';
import type { EventOf, GatewayEvent } from '../../common/events.ts';
import { inTurns } from '../../common/in-turn.ts';
import type { EventRow, EventRows } from '../../observability/event-rows.ts';

/** Rows of a kind that are told apart; later ones share the row `other`. */
const MOST = 200;
type Answered = EventOf<'xmla-answered'>;
const FIELDS = { hit: 'hits', miss: 'misses', bypass: 'bypasses', gateway: 'by_gateway' } as const;
/** Engine time (ms) of a complete answer; undefined where the engine was not asked. */
export const wholeAtEngine = (event: Answered) => (isWhole(event) ? event.engine?.last : undefined);
const isWhole = ({ outcome, complete }: Answered) =>
  complete && outcome.kind !== 'gateway' && outcome.detail !== 'engine-away';

export function addAnswer(to: Sums, event: Answered, weight = 1): void {
  const engine = event.engine?.last;
  to.asks += weight;
  to[FIELDS[event.outcome.kind]] += weight;
  // A clock that was set back takes nothing away.
  to.saved_ms += weight * Math.max(0, event.saved);
  to.bytes += weight * event.bytes;
  if (engine === undefined) return;
  to.engine_ms += weight * engine;
  if (isWhole(event)) {
    to.engine_asks += weight;
  } else {
    to.failed_asks += weight;
    to.failed_ms += weight * engine;
  }
}

type Table = Map<string, Map<string, Row>>;
function rowOf(table: Table, kind: string, name: string): Row {
  let rows = table.get(kind);
  if (rows === undefined) table.set(kind, (rows = new Map()));
  const known = rows.get(name);
  if (known !== undefined) return known;
  if (rows.size >= MOST - 1 && name !== OTHERS) return rowOf(table, kind, OTHERS);
  const row = { ...NO_ROW, kind, name };
  rows.set(name, row);
  return row;
}

/** Adds reports, in any order: all gateways have the same minutes of the wall clock. */
export function mergeHours(reports: readonly HourReport[]): HourReport {
  const table: Table = new Map();
  for (const row of reports.flat()) {
    const sum = rowOf(table, row.kind, row.name);
    addSums(sum, row);
    sum.last = Math.max(sum.last, row.last);
  }
  return rowsIn(table);
}
const rowsIn = (table: Table) =>
  Array.from(table.values(), (rows) => Array.from(rows.values())).flat();

/** Checks the length and the rows of a report: others may write to Redis. */
export const isHour = (rows: HourReport) =>
  rows.length <= 8 * MOST && rows.every((row) => fits(row, NO_ROW));

/** The largest date (ms). */
const LATEST = 8.64e15;
const isAmount = (value: unknown) => typeof value === 'number' && value >= 0 && value <= LATEST;

/** True if all members of the pattern are there, of the same kinds. */
export const fits = (row: object, pattern: object): boolean =>
  Object.entries(pattern).every(([name, like]) => {
    const value: unknown = row[name as keyof typeof row];
    if (typeof like === 'number') return isAmount(value);
    return typeof value === typeof like && Array.isArray(value) === Array.isArray(like);
  });

const NO_LOGIN = '\0';

/** An answer is counted in one place, by outcome and project: several would take 8 % of a hit. */
const newMinute = (at: number) => ({
  at,
  answers: {
    hit: new Map() as Table,
    miss: new Map() as Table,
    bypass: new Map() as Table,
    gateway: new Map() as Table,
  },
  durations: { hit: new Uint32Array(BUCKETS), miss: new Uint32Array(BUCKETS) },
  table: new Map() as Table,
});

/** Counts the last hour minute by minute. @param rows say what is noted of events beside answers */
export function createHour(
  rows: EventRows,
  clock: Pick<Clock, 'wall'>,
  names: { find(name: string): { readonly spelling: string } | undefined },
) {
  const minutes: ReturnType<typeof newMinute>[] = [];

  /** Label of a project by its name; '' for none. */
  const labelOf = (name: string) => (name === '' ? '' : (names.find(name)?.spelling ?? OTHERS));

  function rowsOfMinute(minute: ReturnType<typeof newMinute>): HourReport {
    const { at, answers, durations, table } = minute;
    const rows = rowsIn(table);
    for (const [outcome, ofOutcome] of Object.entries(answers)) {
      for (const { kind: reason, name, ...sums } of rowsIn(ofOutcome)) {
        const add = (kind: string, as: string) => rows.push({ ...sums, kind, name: as });
        add('minute', String(at));
        add('reason', `${outcome} ${reason}`);
        if (name !== NO_LOGIN) add('project', labelOf(name));
      }
    }
    for (const kind of ['hit', 'miss'] as const) {
      for (const [bucket, asks] of durations[kind].entries()) {
        if (asks > 0) rows.push({ ...NO_ROW, kind, name: String(bucket), last: at, asks });
      }
    }
    return rows;
  }

  let latest = newMinute(0);

  /** A minute that the clock comes back to goes on. */
  function minuteOf(wall: number) {
    if (wall >= latest.at && wall < latest.at + MINUTE) return latest;
    const at = wall - (wall % MINUTE);
    const place = (at / MINUTE) % MINUTES;
    const known = minutes[place];
    return (latest = known?.at === at ? known : (minutes[place] = newMinute(at)));
  }

  function note(last: number, name: string, kind: string): void {
    const row = rowOf(minuteOf(last).table, kind, name);
    row.last = last;
    row.asks += 1;
  }

  function countAnswer(event: Answered, at: number): void {
    // Without a login a request may name anything.
    const name = event.principal === '' ? NO_LOGIN : event.project || (event.catalogs[0] ?? '');
    const { kind, detail = '' } = event.outcome;
    const { answers, durations } = minuteOf(at);
    const row = rowOf(answers[kind], detail, name);
    row.last = at;
    addAnswer(row, event);
    if (kind === 'hit' || kind === 'miss') durations[kind][bucketOf(event.milliseconds)]! += 1;
  }

  return {
    labelOf,
    /** @param at wall clock, ms */
    on(event: GatewayEvent, at = clock.wall()): void {
      if (event.type === 'xmla-answered') return countAnswer(event, at);
      const [kind, name] = (rows[event.type] as EventRow<GatewayEvent>).noted?.(event) ?? [];
      if (kind !== undefined && name !== undefined) note(at, name, kind);
    },
    /** Reports the last sixty minutes. A minute of hundreds of projects takes milliseconds. */
    async report(): Promise<HourReport> {
      const now = clock.wall();
      const told = minutes.filter(({ at }) => at >= firstMinute(now) && at <= now);
      let hour: HourReport = [];
      await inTurns(told, 1, (minute) => {
        hour = mergeHours([hour, rowsOfMinute(minute)]);
      });
      return hour;
    },
  };
}

export const bucketOf = (duration: number): number =>
  Math.min(BUCKETS - 1, Math.ceil(Math.log(Math.max(LEAST, duration) / LEAST) / GROWTH));
