import type { Clock } from '../common/clock.ts';
import type { Config } from '../config/config.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import { projectScope, type Scope } from './purge/scopes.ts';

const HOUR = 3_600_000;
/** For names, and for users whose new names are counted (bytes). */
const MAX_BYTES = 4 * 1024 * 1024;
/** What an entry of these tables takes beside its texts (bytes, rounded up). */
const ENTRY_OVERHEAD = 300;

/** A name that is no invention. */
export interface KnownName {
  /** As the configuration spells it, or the first request that the engine answered. */
  readonly spelling: string;
  readonly configured: boolean;
}

/**
 * Names of projects and catalogs, and how many new ones users name: each name for which anything is kept (an epoch, the
 * catalog of a session, a key in Redis) costs memory, whether or not the engine knows it. Spellings that share a scope
 * are one name. It counts for the user who named it first, so that no user's names drive out those of others.
 */
export interface KnownNames {
  /** Takes over the names of a configuration, and how many new ones a user may name within an hour. */
  configure(config: Pick<Config, 'projects' | 'limits'>): void;
  /**
   * Whether something may be kept under all of these names. New ones are charged to the user: not those of the
   * configuration, those that the engine has answered, and those that were charged to any user before. Nothing is
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

interface Named {
  /** Who named it first. */
  readonly user: string;
  /** In which the engine answered it; undefined as long as it did not. */
  readonly spelling: string | undefined;
}

/** The new names of one user, from the first one on for an hour. */
interface Charge {
  readonly since: number;
  readonly count: number;
}

export function createKnownNames({ clock }: { clock: Pick<Clock, 'now'> }): KnownNames {
  let limit = Infinity;
  let configured: ReadonlyMap<Scope, KnownName> = new Map();
  const named = createOwnedTable<Named>(
    MAX_BYTES,
    (scope, { spelling = '' }) => 2 * (scope.length + spelling.length) + ENTRY_OVERHEAD,
  );
  const charges = createOwnedTable<Charge>(MAX_BYTES, (user) => 2 * user.length + ENTRY_OVERHEAD);

  function newOnes(names: readonly string[]): readonly Scope[] {
    const scopes = [...new Set(names.map(projectScope))];
    return scopes.filter((scope) => !configured.has(scope) && named.get(scope) === undefined);
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
      charges.set(user, user, charge);
      for (const scope of added) named.set(scope, user, { user, spelling: undefined });
      return true;
    },
    wouldAdmit(user, names) {
      const added = newOnes(names);
      return added.length === 0 || chargeWith(user, added.length) !== undefined;
    },
    answered(names) {
      for (const name of names) {
        const scope = projectScope(name);
        const { user, spelling } = named.get(scope) ?? { user: '', spelling: undefined };
        if (spelling === undefined) named.set(scope, user, { user, spelling: name });
      }
    },
    find(name) {
      const scope = projectScope(name);
      const spelling = named.get(scope)?.spelling;
      const answered = spelling === undefined ? undefined : { spelling, configured: false };
      return configured.get(scope) ?? answered;
    },
  };
}
