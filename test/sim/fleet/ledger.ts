import { createHistory } from '../history.ts';

/** The projects of the engine; versions and floors are lists in this order. */
export const PROJECTS = ['north', 'south', 'changed', 'watched'] as const;

/** Places in {@link PROJECTS}. */
export type Places = readonly number[];
export const EVERY_PLACE: Places = PROJECTS.map((_name, place) => place);
/** Whose data is changed through the gateway. */
export const CHANGED = PROJECTS.indexOf('changed');
/** Whose loads a watcher finds. */
export const WATCHED = PROJECTS.indexOf('watched');
/** Whose loads are announced by purges. */
export const ANNOUNCED: Places = [0, 1];

/** A purge that is under way. */
export interface Promised {
  /** From now on no answer may be older than the moment when it was sent. */
  acknowledged(): void;
  /** It promised nothing. */
  failed(how: string): void;
}

/** What an answer shows: versions of all projects that it holds. */
export type Stamp = ReadonlyMap<number, number>;

export type Ledger = ReturnType<typeof openLedger>;

/**
 * The truth: versions of the data, and which of them each acknowledged change promised. All runs in one thread, so notes stand
 * in the order in which things happened.
 * @param now simulated time (ms)
 */
export function openLedger(now: () => number) {
  const versions = PROJECTS.map(() => 1);
  const floors = PROJECTS.map(() => 1);
  const { violations, digest, ...history } = createHistory(now);
  let purges = 0;

  const note = (text: string, places = EVERY_PLACE) => history.note(text, namesOf(places));
  const accuse = (what: string, places = EVERY_PLACE) => history.accuse(what, namesOf(places));

  return {
    versions,
    floors,
    violations,
    note,
    accuse,
    digest,
    load(places: Places, how = 'load'): void {
      for (const place of places) versions[place] = (versions[place] ?? 0) + 1;
      note(`${how}: ${shown(places, versions)}`, places);
    },
    /** Notes, in the same turn that sends a purge, what its acknowledgement will promise. */
    promise(places: Places, through: string): Promised {
      const promised = [...versions];
      const name = `purge ${(purges += 1)} through ${through}`;
      note(`${name} sent: ${shown(places, promised)}`, places);
      return {
        acknowledged() {
          for (const place of places) {
            floors[place] = Math.max(floors[place] ?? 0, promised[place] ?? 0);
          }
          note(`${name} acknowledged: nothing older than ${shown(places, promised)}`, places);
        },
        failed: (how) => note(`${name} failed: ${how}`, places),
      };
    },
    /** @param least for each project the version that was promised when the request was sent */
    judge(stamp: Stamp, least: readonly number[], sent: number, told: () => string): void {
      for (const [place, version] of stamp) {
        history.mix(`${now()} ${place} ${version}`);
        if (version >= (least[place] ?? 0)) continue;
        const words = `sent at ${(sent / 1_000).toFixed(3)}, answered with version ${version} of ${PROJECTS[place]}`;
        accuse(`${words} instead of at least ${least[place]}. ${told()}`, [place]);
      }
    },
  };
}

const namesOf = (places: Places) => places.map((place) => PROJECTS[place] ?? '');
const shown = (places: Places, numbers: readonly number[]): string =>
  places.map((place) => `${PROJECTS[place]} ${numbers[place]}`).join(', ');
