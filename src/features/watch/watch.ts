import { purgedScopes } from '../../cache/projects.ts';
import type { CacheScope } from '../../freshness/freshness-store.ts';
import { createSemaphore } from '../../common/semaphore.ts';
import { pause } from '../../common/clock.ts';
import { finding } from '../../common/finding.ts';
import type { Judge } from '../../line/ports.ts';
import type { Core, Feature } from '../feature.ts';
import { watchFigures } from './events.ts';
import { createSource, MOST_FILES, type Watched, watchedIn } from './sources.ts';
import { createWatcher, type WatchNote } from './watcher.ts';

const MOST_ASKED = 8;
/** Time after which a question no longer counts among these: others must not wait for it. */
const COUNTS_FOR_MS = 1_000;
/** Least pause between two polls, however long they take. */
const LEAST_PAUSE_MS = 100;

/** Watchers of the configuration in force. A reload keeps those that it does not concern. */
export function watch(core: Core, sourceOf = createSource): Feature {
  const { clock } = core;
  const files = createSemaphore(MOST_FILES);
  const asked = createSemaphore(MOST_ASKED);
  async function enter(signal: AbortSignal) {
    const leave = await asked.acquire(signal);
    clock.after(COUNTS_FOR_MS, leave);
    return leave;
  }
  const running = new Map<string, ReturnType<typeof start>>();
  const blind = new Set<CacheScope>();
  /** Scopes whose latest poll failed: entries past their ttl may be older than a load. */
  const unseen = new Set<CacheScope>();

  /** Finds blind watchers in one turn, so that no request meets half of it. */
  function findBlind(): void {
    blind.clear();
    unseen.clear();
    for (const { watched, watcher } of running.values()) {
      const { name, watch } = watched;
      const isBarred = watch.when_blind === 'bypass' && watcher.isBlind();
      for (const scope of purgedScopes({ project: name })) {
        if (isBarred) blind.add(scope);
        if (!watcher.hasSeen()) unseen.add(scope);
      }
    }
    if (blind.size + unseen.size > 0) core.judges.add(judge);
    else core.judges.delete(judge);
  }

  const judge: Judge = (scopes, isOld = false) => {
    const barred = isOld ? unseen : blind;
    if (barred.size === 0) return undefined;
    return scopes.some((scope) => barred.has(scope)) ? 'watch-blind' : undefined;
  };

  /** @param after the end of the watcher in its place */
  function start(watched: Watched, settings: string, after: Promise<void> | undefined) {
    const closing = new AbortController();
    const { signal } = closing;
    const source = describeSource(watched);
    const signature = sourceOf(watched, clock, files);
    const watcher = createWatcher({ ...core, ...watched, enter, source, signature });

    async function run(): Promise<void> {
      await after;
      await watcher.begin();
      while (!signal.aborted) {
        findBlind();
        const began = clock.now();
        const every = await watcher.poll(signal);
        findBlind();
        const left = Math.max(LEAST_PAUSE_MS, began + every - clock.now());
        await pause(clock, left, signal);
      }
      await watcher.leave();
    }

    const tell = async () => describe(watched, await watcher.note());
    return { watched, settings, watcher, tell, stop: () => closing.abort(), ended: run() };
  }

  /** Tells what any gateway of the fleet has noted of each watcher. Never rejects. */
  const tell = () => Promise.all([...running.values()].map((one) => one.tell()));

  return {
    gauges: watchFigures(() =>
      [...running].map(([name, { watcher }]) => [name, watcher.age(), watcher.isBlind()]),
    ),
    async pages() {
      const { page } = await import('../../http/admin-page.ts');
      const watches = page({}, async () => ({ watches: await tell() }), true);
      return { admin: { '/admin/watches': watches } };
    },
    findings: async () => (await tell()).flatMap(blindFinding),
    configure(config): void {
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
    async close(): Promise<void> {
      const all = [...running.values()];
      for (const { stop } of all) stop();
      await Promise.all(all.map(({ ended }) => ended));
    },
  };
}

export const blindFinding = ({
  project,
  state,
  why,
}: Record<'project' | 'state' | 'why', string>) =>
  finding('problem', 'watch-blind', state === 'blind')`
      The gateway cannot see whether the data of ${project} changes: ${why}.
      The watched source did not answer three times in a row, so no change is purged.
      Bring the source back, or correct projects.NAME.watch. mdx-gateway check --connect tries it.`;

/** Names a source without secrets, which may stand in a URL before its host and behind its path. */
function describeSource({ name, watch, engine }: Watched): string {
  const { kind, url, project, query, path } = watch;
  const { protocol, host, pathname } = url === undefined ? {} : new URL(url);
  const ofEngine = kind === 'xmla' ? [name, engine.url, engine.kind] : [];
  return JSON.stringify([kind, protocol, host, pathname, project, query, path, ...ofEngine]);
}

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
