import { setTimeout as delay } from 'node:timers/promises';
import type { GatewaySettings } from './gateways.ts';
import { PROJECTS, SHARED, WATCHED, type Ledger } from './ledger.ts';
import type { VersionEngine } from './version-engine.ts';

/** A user who may purge by the hook, and by nothing else. */
export const LOADER = 'LOADER';
export const HOOK = '/hooks/kylin';

/** What stands in the configuration of gateways that purge in every way that there is, and warm up after each purge. */
export const freshSettings = ({ pageUrl }: Pick<GatewaySettings, 'pageUrl'>) => ({
  hooks: { kylin: { format: 'kylin5', user: LOADER, projects: [...PROJECTS] } },
  projects: {
    [PROJECTS[SHARED] ?? '']: { share: 'everyone', engine: { login: 'none' } },
    [PROJECTS[WATCHED] ?? '']: { watch: { kind: 'url', url: pageUrl, every: '1s' } },
  },
  warm: { mode: 'auto', settle: '0' },
  // Purges of watchers are told at this level.
  log: { level: 'info' },
});

/** A line of the log, as a whole. */
const WATCH_PURGE = /^\{(?=.*"cause":"watch")(?=.*"result":"cleared").*"msg":"purged"\}$/u;
/** By so much what the log says of a beginning may be wrong (ms). */
const ROUNDED = 5;

/** Notes the purges of the watcher that hold, as the logs of gateways tell them. */
export function readWatchPurges(ledger: Ledger) {
  let count = 0;
  let latest = 0;
  return {
    onLine(line: string): void {
      // One that was killed may have left a part of a line.
      if (!WATCH_PURGE.test(line)) return;
      const { time, ms } = JSON.parse(line) as { readonly time: string; readonly ms: number };
      const began = Date.parse(time) - ms;
      count += 1;
      latest = Math.max(latest, began);
      ledger.purged(WATCHED, began - ROUNDED, 'the watcher');
    },
    count: () => count,
    /** Whether one began then or later (ms of the wall clock). */
    since: (moment: number) => latest >= moment - ROUNDED,
  };
}
export type WatchPurges = ReturnType<typeof readWatchPurges>;

/** So often the page is looked at before the second purge of a load: the change, and twice the same. */
const SETTLED = 3;
/** And so often more where no such purge is told: then what is read must be new all the same. */
const AT_LAST = 4;
/** Answers of which some are of the watched project. */
const SOME = 500;

/**
 * A load that takes longer than the first purge after its beginning, in good weather: what is read in its middle must not
 * stay. Resolves when it is purged and answers have been judged by that.
 * @param forget has the watcher begin anew: the task of a gateway that was killed is kept for it for a minute
 * @param answers so far
 */
export async function loadWithoutACall(options: {
  ledger: Ledger;
  engine: Pick<VersionEngine, 'beginLoad'>;
  purges: WatchPurges;
  forget: () => Promise<void>;
  answers: () => number;
}): Promise<void> {
  const { ledger, engine, purges, answers } = options;
  const isWrong = () => ledger.violations.length > 0;
  const until = async (isSo: () => boolean) => {
    while (!isSo() && !isWrong()) await delay(5);
  };
  const judged = () => {
    const enough = answers() + SOME;
    return until(() => answers() >= enough);
  };
  /** Resolves to whether a purge after so many looks is told. */
  async function purged(looks: readonly number[], after = 1): Promise<boolean> {
    const isTold = () => purges.since(looks[after - 1] ?? Infinity);
    await until(() => isTold() || looks.length >= after + AT_LAST);
    return isTold();
  }
  async function beginLoad(): Promise<readonly number[]> {
    const looks = engine.beginLoad();
    if (!(await purged(looks)) && !isWrong()) ledger.accuse('the watcher has not purged');
    return looks;
  }

  await options.forget();
  let looks = await beginLoad();
  do {
    looks = await beginLoad();
    // Old answers are kept under the new epochs.
    await judged();
    // Where that took too long the second purge has come already.
  } while (looks.length >= SETTLED && !isWrong());
  ledger.load([WATCHED]);
  await purged(looks, SETTLED);
  ledger.purged(WATCHED, Infinity, 'the watcher, as it has to');
  await judged();
}
