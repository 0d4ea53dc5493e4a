import type { EngineConfig } from '../config/config.ts';
import { engineTraits, type EngineTraits } from '../engine-kinds.ts';
import type { Engine, EngineAddressee } from '../engine/engine.ts';
import { forwardedQuery } from '../proxy/forwarded.ts';
import { projectScope } from '../query-cache/purge/scopes.ts';

/** The engine of a project, and what its configuration says beside its address. */
export interface ChosenEngine {
  readonly engine: Engine;
  readonly settings: Pick<EngineConfig, 'kind' | 'login' | 'delegation' | 'session_idle'>;
}

export type EngineOf = (project: string | undefined) => ChosenEngine;

/** Where a request goes, and in whose name. */
export interface Destination extends ChosenEngine {
  readonly traits: EngineTraits;
  readonly addressee: EngineAddressee;
  /** Where a session lives: one engine, and one project where the engine is told of it. */
  readonly place: string;
}

export function destinationOf(
  engineOf: EngineOf,
  to: {
    readonly project: string | undefined;
    readonly search: string;
    readonly user: string;
    /** Asked where the engine gets the login of the client. */
    readonly authorization: () => string | undefined;
  },
): Destination {
  const { project, search, user, authorization } = to;
  const { engine, settings } = engineOf(project);
  const query = search === '' ? [] : forwardedQuery(search);
  const login = settings.login === 'forward' ? authorization() : undefined;
  return {
    engine,
    settings,
    traits: traitsOf(settings),
    addressee: { project, query, user, authorization: login, replica: undefined },
    place: placeIn(engine, engine.tellsProject ? project : undefined),
  };
}

/** The places of an engine's projects, by their names as they were spelt. */
const places = new WeakMap<Engine, Map<string | undefined, string>>();
/** Anybody who may query could invent names. */
const MOST_PLACES = 1_000;

/** Made once for each project: it takes 2 µs. */
function placeIn(engine: Engine, project: string | undefined): string {
  let ofEngine = places.get(engine);
  if (ofEngine === undefined) places.set(engine, (ofEngine = new Map()));
  const known = ofEngine.get(project);
  if (known !== undefined) return known;
  // In the spelling in which purges name it: an engine may take two spellings for one project.
  const made = JSON.stringify([engine.id, project === undefined ? null : projectScope(project)]);
  if (ofEngine.size < MOST_PLACES) ofEngine.set(project, made);
  return made;
}

/** An engine that gets one login for all users cannot tell whose a session is: then the gateway must. */
function traitsOf({ kind, login }: ChosenEngine['settings']): EngineTraits {
  const traits = engineTraits(kind);
  if (login === 'forward' || !traits.checksSessionOwner) return traits;
  return { ...traits, checksSessionOwner: false, strangeSessions: 'refuse' };
}
