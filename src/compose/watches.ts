import { setTimeout as delay } from 'node:timers/promises';
import { purgedScopes, type Scope } from '../cache/projects.ts';
import type { Purge } from '../cache/purge/purge.ts';
import { createGate } from '../common/body-account.ts';
import type { Config } from '../config/config.ts';
import type { Judge } from '../line/ports.ts';
import type { FleetStore } from '../freshness/fleet.ts';
import { createSource, type Watched } from '../watch/sources.ts';
import { createWatcher, type WatchNote } from '../watch/watcher.ts';
import type { Parts } from './parts.ts';

/** So many sources are asked at one time, and one that takes longer (ms) counts no more: it must not keep the others waiting. */
const MOST_ASKED = 8;
const COUNTS_FOR = 1_000;
/** So many files are looked at at one time: of a file system that hangs each look keeps a thread, of which Node.js has four for all. */
export const MOST_FILES = 2;
/** Between two polls at least, however long they take (ms). */
const LEAST_PAUSE = 100;

export function watchedIn({ projects }: Pick<Config, 'projects'>): readonly Watched[] {
  return [...projects].flatMap(([name, { watch, engine }]) =>
    watch ? [{ name, watch, engine }] : [],
  );
}

/** All watchers of the configuration in force. They outlive the reloads that do not concern them. */
export function createWatches(
  options: Pick<Parts, 'clock' | 'emit'> & { fleet: FleetStore; purge: Purge },
) {
  const { clock } = options;
  const files = createGate(MOST_FILES);
  const asked = createGate(MOST_ASKED);
  async function enter(signal: AbortSignal) {
    const leave = await asked.enter(signal);
    setTimeout(leave, COUNTS_FOR).unref();
    return leave;
  }
  const running = new Map<string, ReturnType<typeof start>>();
  const blind = new Set<Scope>();

  /** In one turn, so that no request meets half of it. */
  function findBlind(): void {
    blind.clear();
    for (const { watched, watcher } of running.values()) {
      const { name, watch } = watched;
      if (watch.when_blind !== 'bypass' || !watcher.isBlind()) continue;
      for (const scope of purgedScopes({ project: name })) blind.add(scope);
    }
  }

  const judge: Judge = (scopes) =>
    blind.size > 0 && scopes.some((scope) => blind.has(scope)) ? 'watch-blind' : undefined;

  /** @param after what must have ended before it begins */
  function start(watched: Watched, settings: string, after: Promise<void> | undefined) {
    const closing = new AbortController();
    const { signal } = closing;
    const source = describeSource(watched);
    const signature = createSource(watched, clock, files);
    const watcher = createWatcher({ ...options, ...watched, enter, source, signature });

    async function run(): Promise<void> {
      await after;
      await watcher.begin();
      while (!signal.aborted) {
        findBlind();
        const began = clock.now();
        const pause = await watcher.poll(signal);
        findBlind();
        const left = Math.max(LEAST_PAUSE, began + pause - clock.now());
        await delay(left, undefined, { ref: false, signal }).catch(() => {});
      }
      await watcher.leave();
    }

    const tell = async () => describe(watched, await watcher.note());
    return { watched, settings, watcher, tell, stop: () => closing.abort(), ended: run() };
  }

  return {
    /** Keeps entries from being served whose watcher is blind (`when_blind: bypass`). */
    judge,
    configure(config: Pick<Config, 'projects'>): void {
      const wanted = new Map(watchedIn(config).map((one) => [one.name, one]));
      const ending = new Map<string, Promise<void>>();
      for (const [name, { settings, stop, ended }] of running) {
        if (settings === JSON.stringify(wanted.get(name))) continue;
        stop();
        running.delete(name);
        ending.set(name, ended);
      }
      for (const [name, one] of wanted) {
        if (running.has(name)) continue;
        running.set(name, start(one, JSON.stringify(one), ending.get(name)));
      }
      findBlind();
    },
    /** Since when sources have not answered (ms), and which are blind. */
    sight: () =>
      [...running].map(([name, { watcher }]) => [name, watcher.age(), watcher.isBlind()] as const),
    /** As any gateway of the fleet has noted it. Never rejects. */
    tell: () => Promise.all(running.values().map(({ tell }) => tell())),
    /** Gives up the questions under way. Resolves when purges under way are over. */
    async close(): Promise<void> {
      const all = [...running.values()];
      for (const { stop } of all) stop();
      await Promise.all(all.map(({ ended }) => ended));
    },
  };
}

/** Tells sources apart without a secret: what stands in a URL before its host, or behind its path, may be one. */
function describeSource({ name, watch, engine }: Watched): string {
  const { kind, url, project, query, path } = watch;
  const { protocol, host, pathname } = url === undefined ? {} : new URL(url);
  const ofEngine = kind === 'xmla' ? [name, engine.url, engine.kind] : [];
  return JSON.stringify([kind, protocol, host, pathname, project, query, path, ...ofEngine]);
}

/** So many letters of the digest of a signature are shown. */
const SHOWN = 12;
const timeOf = (wall: number) => (wall === 0 ? null : new Date(wall));

function describe({ name, watch }: Watched, note: WatchNote) {
  const isWaiting = note.due || note.seen === 0;
  return {
    project: name,
    kind: watch.kind,
    every_ms: watch.every,
    state: note.blind ? 'blind' : isWaiting ? 'waiting' : 'seeing',
    seen_at: timeOf(note.seen),
    changed_at: timeOf(note.changed),
    purged_at: timeOf(note.purged),
    due: note.due,
    failures: note.failures,
    why: note.why,
    signature: note.signature.slice(0, SHOWN),
  };
}
