/**
 * The whole configuration, composed of the sections that rooms and features declare in files of this name. The comment
 * before a key is its meaning in the reference. Durations are in ms, sizes in bytes, paths absolute; null is undefined.
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
    /** Pages of other origins in the browsers of users, which may ask over XMLA (CORS). */
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
  /** Finds out by itself whether the data behind the project changed, and purges it. */
  watch: optional(watch),
  /** The engine of this project, with the same keys as the section engine. What is left out is
   * taken from there; null takes nothing from there. */
  engine: inherited(someOf(engine)),
});

/** The whole file. Its sections stand in the order in which the reference tells them. */
export const schema = section({
  /** Where the gateway listens. */
  listen,
  /** How many processes serve. 1 is a single process. With more, each has its part of cache.memory,
   * limits.in_flight, limits.concurrency, limits.queue and limits.connections, and one more process
   * keeps what they share where there is no Redis. */
  workers: key(kinds.integer(1, 64), 1, 'restart'),
  /** Who may log in, and who may do what. */
  auth,
  /** The engine behind the gateway. */
  engine,
  /** What is stored, where and for how long. */
  cache,
  /** What is different for single projects, by name. Spellings that an engine may take for one name
   * count as one (letter case, spaces around it, width, kana, composition); where several projects
   * are such spellings, the strictest settings of all count, and each has its own engine. */
  projects: byName(kinds.projectName, project),
  /** Who tells by POST /hooks/NAME that data was loaded, which purges projects (docs/HOOKS.md). */
  hooks,
  /** Where roles and datasets are kept. */
  storage: { ...storage, reload: 'restart' },
  /** What protects the gateway and the engine. */
  limits,
  /** What is logged. */
  log,
  /** What is remembered of queries. */
  statistics,
  /** Filling the cache again after a purge. */
  warm,
});

/** The file after it was read and checked key by key, before anything is inherited. */
export type CheckedFile = ValueOf<typeof schema>;
export type CheckedProject = NonNullable<ReturnType<CheckedFile['projects']['get']>>;
/** The configuration in force: every value is there, also where the file is silent. */
export type Config = ReturnType<typeof fillIn>;

/** @param withdrawn keys of former versions that stand in the file and have no effect */
export function fillIn(file: CheckedFile, available: Memory, withdrawn: readonly string[]) {
  const { cache, engine, limits } = file;
  const projects = [...file.projects].map(([name, own]) => {
    const filled = fillInEngine(inheritEngine(own.engine ?? {}, engine));
    return [name, { ...fillInProject(own, cache), engine: filled }] as const;
  });
  const { entries, bodies, connections, ...memory } = fitMemory(file, available);
  const longest = Math.min(
    cache.max_entry ?? LONGEST_ENTRY_BYTES,
    Math.floor(entries / file.workers),
  );
  return {
    ...file,
    cache: { ...cache, memory: entries, max_entry: longest },
    engine: fillInEngine(engine),
    /** Projects by their names as they are written. */
    projects: new Map(projects),
    storage: fillInStorage(file.storage),
    limits: { ...limits, in_flight: bodies, connections },
    memory,
    withdrawn,
  };
}

/** The longest answer that is stored where the file does not say. */
const LONGEST_ENTRY_BYTES = 64 * 1024 * 1024;
