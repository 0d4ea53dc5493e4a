import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import type { Config } from '../config/config.ts';
import { projectScope, type Scope } from './purge/scopes.ts';

const HOUR = 3_600_000;
/** Names that are remembered of each kind, and users whose new names are counted; the least recently used give way. */
const MAX_NAMES = 10_000;
const MAX_USERS = 10_000;

/** A name that is no invention. */
export interface KnownName {
  /** As the configuration spells it, or the first request that the engine answered. */
  readonly spelling: string;
  readonly configured: boolean;
}

/**
 * Names of projects and catalogs, and how many new ones users name: each name for which anything is kept (an epoch, the
 * catalog of a session, a key in Redis) costs memory, whether or not the engine knows it. Spellings that share a scope
 * are one name.
 */
export interface KnownNames {
  /** Takes over the names of a configuration, and how many new ones a user may name within an hour. */
  configure(config: Pick<Config, 'projects' | 'limits'>): void;
  /**
   * Whether something may be kept under all of these names. New ones are charged to the user: not those of the
   * configuration, those that the engine has answered, and those that were charged before, to whomever. Nothing is
   * given back, since an engine may answer a name that it does not know with an empty rowset. A user whose new names
   * are too many is charged none.
   */
  admit(user: string, names: readonly string[]): boolean;
  /** The same for a request that is not sent: nothing is charged. */
  wouldAdmit(user: string, names: readonly string[]): boolean;
  /** Notes that the engine answered a request with these names, and not with a Fault. */
  answered(names: readonly string[]): void;
  /** Undefined where neither the configuration holds it nor the engine has answered it. */
  find(name: string): KnownName | undefined;
}

/** The new names of one user, from the first one on for an hour. */
interface Charge {
  readonly since: number;
  readonly count: number;
}

export function createKnownNames({ clock }: { clock: Pick<Clock, 'now'> }): KnownNames {
  let limit = Infinity;
  let configured: ReadonlyMap<Scope, KnownName> = new Map();
  const answered = new LRUCache<Scope, KnownName>(counted(MAX_NAMES));
  const charged = new LRUCache<Scope, true>(counted(MAX_NAMES));
  const charges = new LRUCache<string, Charge>(counted(MAX_USERS));

  function newOnes(names: readonly string[]): readonly Scope[] {
    const scopes = [...new Set(names.map(projectScope))];
    return scopes.filter(
      (scope) =>
        !configured.has(scope) &&
        answered.get(scope) === undefined &&
        charged.get(scope) === undefined,
    );
  }

  /** What is charged to the user with so many more; undefined when that is too much. */
  function chargeWith(user: string, more: number): Charge | undefined {
    const now = clock.now();
    const before = charges.get(user);
    const { since, count } =
      before !== undefined && now - before.since < HOUR ? before : { since: now, count: 0 };
    return count + more <= limit ? { since, count: count + more } : undefined;
  }

  return {
    configure({ projects, limits }) {
      limit = limits.names_per_user;
      configured = new Map(
        [...projects.keys()].map((name) => [
          projectScope(name),
          { spelling: name, configured: true },
        ]),
      );
    },
    admit(user, names) {
      const added = newOnes(names);
      if (added.length === 0) return true;
      const charge = chargeWith(user, added.length);
      if (charge === undefined) return false;
      charges.set(user, charge);
      for (const scope of added) charged.set(scope, true);
      return true;
    },
    wouldAdmit(user, names) {
      const added = newOnes(names);
      return added.length === 0 || chargeWith(user, added.length) !== undefined;
    },
    answered(names) {
      for (const name of names) {
        const scope = projectScope(name);
        if (answered.get(scope) !== undefined) continue;
        answered.set(scope, { spelling: name, configured: false });
        charged.delete(scope);
      }
    },
    find(name) {
      const scope = projectScope(name);
      return configured.get(scope) ?? answered.get(scope);
    },
  };
}

/** With `max` it would take the memory for all of them at once. */
const counted = (most: number) => ({ maxSize: most, sizeCalculation: () => 1 });
