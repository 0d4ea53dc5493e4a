/**
 * The whole configuration. A comment above a key is its text in the reference. Durations are in ms,
 * sizes in bytes, paths absolute; null is undefined.
 */
import { auth } from '../auth/config.ts';
import { cacheKeys, fillInProject, projectKeys } from '../cache/config.ts';
import { engine, fillInEngine, inheritEngine } from '../engine/config.ts';
import { cors } from '../features/cors/config.ts';
import { hooks } from '../features/hooks/config.ts';
import { statistics } from '../features/statistics/config.ts';
import { warm } from '../features/warm/config.ts';
import { watch } from '../features/watch/config.ts';
import { limits, listenKeys } from '../http/config.ts';
import { log } from '../observability/config.ts';
import { redis } from '../redis/config.ts';
import * as kinds from '../settings/kinds.ts';
import {
  byName,
  inherited,
  key,
  optional,
  section,
  someOf,
  type ValueOf,
} from '../settings/setting.ts';
import { fillInStorage, storage } from '../storage/config.ts';
import { fitMemory, type Memory } from './fit-memory.ts';

const listen = section(
  {
    ...listenKeys,
    /** Pages of other origins that may ask over XMLA from the browsers of users (CORS). */
    cors,
  },
  ['hot_path'],
);

const cache = section({
  ...cacheKeys,
  /** The tier that several gateways share. */
  redis: { ...redis, reload: 'restart' },
});

const project = section({
  ...projectKeys,
  /** Watches for changes of the data behind the project, and then purges the project. */
  watch: optional(watch),
  /** The engine of this project, with the same keys as the section engine. A key that is left out
   * is taken from that section; a key that is null takes nothing from it. */
  engine: inherited(someOf(engine)),
});

export const schema = section({
  /** The address, port and certificate of the gateway. */
  listen,
  /** The number of processes that serve. With more than 1, each of them gets an equal part of
   * cache.memory, limits.in_flight, limits.concurrency, limits.queue and limits.connections, and
   * one more process keeps what they share without Redis. */
  workers: key(kinds.integer(1, 64), 1, 'restart'),
  /** Logins and rights of users. */
  auth,
  /** The engine behind the gateway. */
  engine,
  /** Stored answers: which, where and for how long. */
  cache,
  /** Settings of single projects, by name. Spellings that an engine may take for one name count as
   * one (letter case, spaces around it, width, kana, composition). If several projects here differ
   * only in such a way, the strictest settings of all of them count, but each keeps its own
   * engine. */
  projects: byName(kinds.projectName, project),
  /** Programs that report loaded data by POST /hooks/NAME, which purges projects; see
   * docs/HOOKS.md. */
  hooks,
  /** Where roles and datasets are kept. */
  storage: { ...storage, reload: 'restart' },
  /** Limits that protect the gateway and the engine. */
  limits,
  /** Contents of the log. */
  log,
  /** Statistics of queries. */
  statistics,
  /** Filling the cache again after a purge. */
  warm,
});

export type CheckedFile = ValueOf<typeof schema>;
export type CheckedProject = NonNullable<ReturnType<CheckedFile['projects']['get']>>;
export type { Config } from '../settings/setting.ts';
type InForce = ReturnType<typeof fillIn>;
declare module '../settings/setting.ts' {
  interface Config extends InForce {}
}

/** @param withdrawn keys of former versions in the file, without effect */
export function fillIn(file: CheckedFile, available: Memory, withdrawn: readonly string[]) {
  const { cache, engine, limits } = file;
  const projects = [...file.projects].map(([name, own]) => {
    const filled = fillInEngine(inheritEngine(own.engine ?? {}, engine));
    return [name, { ...fillInProject(own, cache), engine: filled }] as const;
  });
  const { entries, bodies, connections, ...memory } = fitMemory(file, available);
  const ofWorker = Math.floor(entries / file.workers);
  const longest = Math.min(cache.max_entry ?? LONGEST_ENTRY_BYTES, ofWorker);
  return {
    ...file,
    cache: { ...cache, memory: entries, max_entry: longest },
    engine: fillInEngine(engine),
    projects: new Map(projects),
    storage: fillInStorage(file.storage),
    limits: { ...limits, in_flight: bodies, connections },
    memory,
    withdrawn,
  };
}

const LONGEST_ENTRY_BYTES = 64 * 1024 * 1024;
