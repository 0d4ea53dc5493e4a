import type { StampedVersions } from './version-stamp.ts';

/** The projects of the engine. Versions and floors are lists in this order. */
export const PROJECTS = ['north', 'south', 'east', 'west', 'centre'] as const;

/** Places in {@link PROJECTS}. */
export type Places = readonly number[];

/** Whose answers gateways share, where they are made warm. */
export const SHARED = PROJECTS.indexOf('west');
/** Whose loads are not announced where a watcher finds them. */
export const WATCHED = PROJECTS.indexOf('centre');
export const EVERY_PLACE: Places = PROJECTS.map((_name, place) => place);

/** What was promised when a request was sent. */
export interface Expected {
  /** Milliseconds since the ledger was opened. */
  readonly at: number;
  /** For each project the version that its answers have to show at least. */
  readonly floors: readonly number[];
}

/** A purge that is under way. */
export interface LedgerPurge {
  /** From now on no answer may be older than the moment when it was sent. */
  acknowledged(): void;
  /** It promised nothing. */
  failed(how: string): void;
}

/** An answer that breaks the promise. */
export interface Violation {
  readonly what: string;
  /** What happened to its project before, the latest last. */
  readonly history: readonly string[];
}

/**
 * Who knows what is true: the versions of the data, and which of them was promised. All of it happens in one
 * thread, so what is noted here has the order in which it happened.
 */
export interface Ledger {
  /** The version of each project now. */
  readonly versions: readonly number[];
  readonly violations: readonly Violation[];
  /** Milliseconds since it was opened. */
  now(): number;
  /** New data. */
  load(places: Places): void;
  /** Noted in the same turn that sends the purge. */
  purgeSent(places: Places, through: string): LedgerPurge;
  /** A purge of which it is known afterwards when it began (ms of the wall clock), and that it holds. */
  purged(place: number, began: number, by: string): void;
  /**
   * Noted in the same turn that sends a request.
   * @param fresh whether it asks for an answer that nobody has got before
   */
  expected(fresh: boolean): Expected;
  /** @param told how and where it was answered, for who looks for the cause */
  judge(expected: Expected, places: Places, stamp: StampedVersions, told: string): void;
  /** What is wrong whatever its version. */
  accuse(what: string): void;
  /** What happened to everybody. */
  note(text: string): void;
}

/** Lines that a violation shows. */
const SHOWN = 60;
/** Lines that are remembered. */
const REMEMBERED = 4_000;

export function openLedger(): Ledger {
  const opened = performance.now();
  const versions = PROJECTS.map(() => 1);
  const floors = PROJECTS.map(() => 1);
  const violations: Violation[] = [];
  let lines: { readonly at: number; readonly places: Places; readonly text: string }[] = [];
  let purges = 0;
  /** Loads of one project, with the time by the wall clock, as other processes know it. */
  const loads: { readonly place: number; readonly version: number; readonly wall: number }[] = [];
  const now = () => performance.now() - opened;

  function write(places: Places, text: string): void {
    lines.push({ at: now(), places, text });
    if (lines.length > 2 * REMEMBERED) lines = lines.slice(-REMEMBERED);
  }

  function historyOf(places: Places): string[] {
    return lines
      .filter((line) => line.places.some((place) => places.includes(place)))
      .slice(-SHOWN)
      .map(({ at, text }) => `${at.toFixed(1)} ms  ${text}`);
  }

  function accuse(what: string, places = EVERY_PLACE): void {
    violations.push({ what: `${now().toFixed(1)} ms  ${what}`, history: historyOf(places) });
  }

  return {
    versions,
    violations,
    now,
    load(places) {
      for (const place of places) {
        const version = (versions[place] ?? 0) + 1;
        versions[place] = version;
        loads.push({ place, version, wall: Date.now() });
      }
      write(places, `load: ${shown(places, versions)}`);
    },
    purgeSent(places, through) {
      const promised = [...versions];
      const name = `purge ${(purges += 1)} through ${through}`;
      write(places, `${name} sent: ${shown(places, promised)}`);
      return {
        acknowledged() {
          for (const place of places) {
            floors[place] = Math.max(floors[place] ?? 0, promised[place] ?? 0);
          }
          write(places, `${name} acknowledged: nothing older than ${shown(places, promised)}`);
        },
        failed: (how) => write(places, `${name} failed: ${how}`),
      };
    },
    purged(place, began, by) {
      const last = loads.findLast((load) => load.place === place && load.wall < began);
      floors[place] = Math.max(floors[place] ?? 0, last?.version ?? 0);
      write([place], `purge by ${by} is told: nothing older than ${shown([place], floors)}`);
    },
    expected: (fresh) => ({ at: now(), floors: fresh ? [...versions] : [...floors] }),
    judge(expected, places, stamp, told) {
      const stale = places.filter(
        (place) => !((stamp.versions[place] ?? 0) >= (expected.floors[place] ?? 0)),
      );
      if (stale.length === 0) return;
      accuse(
        `sent at ${expected.at.toFixed(1)} ms, answered with ${shown(stale, stamp.versions)} instead of at least ` +
          `${shown(stale, expected.floors)}; the engine was asked at ${stamp.at} ms (request ${stamp.serial}). ${told}`,
        stale,
      );
    },
    accuse,
    note: (text) => write(EVERY_PLACE, text),
  };
}

function shown(places: Places, numbers: readonly number[]): string {
  return places.map((place) => `${PROJECTS[place]} ${numbers[place]}`).join(', ');
}
