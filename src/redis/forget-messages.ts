import type { Scope } from '../query-cache/purge/scopes.ts';

/** What a message says that tells gateways to forget. */
interface Forget {
  readonly scopes: readonly Scope[];
  /** The id of the purge, and the replica that wants to know that it was handled. Older gateways name neither. */
  readonly purge: string | undefined;
  readonly from: string | undefined;
}

/** What stands in names of channels and in receipts: nothing else than ids that gateways make. */
const ID = /^[\w-]{1,100}$/;

/**
 * Reads `{ purge, scopes, from }`, or the bare list of scopes that older gateways send. They in turn take what is no
 * list for no message, so that for them the lease alone counts.
 * @returns undefined when it is neither
 */
export function readForget(message: string): Forget | undefined {
  const said = parsed(message);
  if (isScopes(said)) return { scopes: said, purge: undefined, from: undefined };
  if (!isObject(said) || !isScopes(said['scopes'])) return undefined;
  return { scopes: said['scopes'], purge: idOf(said['purge']), from: idOf(said['from']) };
}

/** Reads `{ purge, replica }`; undefined when it is something else. */
export function readAcknowledgement(
  message: string,
): { readonly purge: string; readonly replica: string } | undefined {
  const said = parsed(message);
  if (!isObject(said)) return undefined;
  const [purge, replica] = [idOf(said['purge']), idOf(said['replica'])];
  return purge === undefined || replica === undefined ? undefined : { purge, replica };
}

function parsed(message: string): unknown {
  try {
    return JSON.parse(message);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What is no name of a scope is forgotten without harm. */
function isScopes(value: unknown): value is readonly Scope[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function idOf(value: unknown): string | undefined {
  return typeof value === 'string' && ID.test(value) ? value : undefined;
}
