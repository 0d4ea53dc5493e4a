import type { SessionData } from '../../../src/freshness/freshness-store.ts';

/** What expires at a moment (ms). */
export interface Lasting<T> {
  readonly value: T;
  readonly over: number;
}

/** A hash, as the script of the sessions writes it. */
export interface Session {
  token?: string | undefined;
  version?: string | undefined;
  era?: string | undefined;
  incarnation?: string | undefined;
  data?: SessionData | undefined;
  at?: number | undefined;
  settles?: number | undefined;
  readonly held: Map<string, { readonly over: number; readonly length: number }>;
  /** When the key is gone (ms). */
  over: number;
}

/** A lease that a gateway has noted (ms). */
interface LeaseNote {
  readonly caller: string;
  readonly length: number;
  readonly over: number;
  readonly isAgain: boolean;
}

/** What stands in Redis, and in a snapshot of it. */
export const emptyState = () => ({
  incarnation: undefined as string | undefined,
  /** By caller and length. */
  leases: new Map<string, LeaseNote>(),
  /** Whether no note of a lease was lost. */
  isComplete: false,
  tokens: new Map<string, Lasting<string>>(),
  sessions: new Map<string, Session>(),
  entries: new Map<string, Lasting<Buffer>>(),
  locks: new Map<string, Lasting<string>>(),
  slow: new Map<string, Lasting<number>>(),
  tasks: new Map<string, Lasting<string>>(),
  notes: new Map<string, string>(),
});
export type State = ReturnType<typeof emptyState>;

/** Another one that shares nothing with it. */
export function copyOf(state: State): State {
  const copy = structuredClone(state);
  // What structuredClone makes of a Buffer is none.
  for (const [key, { value, over }] of copy.entries) {
    copy.entries.set(key, { value: Buffer.from(value), over });
  }
  return copy;
}

/** What the commands of one server work on. */
export interface Server {
  now(): number;
  newToken(): string;
  state(): State;
  replid(): string;
  /** @throws ReplyError where it does not write */
  mayWrite(): void;
  /**
   * What the scripts begin with: notices a restart, and notes the lease of the caller.
   * @returns the longest lease in use, and that of all but the caller (ms)
   */
  enter(caller: Caller): { readonly longest: number; readonly others: number };
}

/** Who asks, with the lease of what it reads now (ms). */
export interface Caller {
  readonly id: string;
  readonly lease: number;
  /** How long the token of a project lives unread (ms). */
  readonly unusedAfter?: number;
}

export function held<T>(
  { now }: Server,
  table: ReadonlyMap<string, Lasting<T>>,
  key: string,
): T | undefined {
  const found = table.get(key);
  return found !== undefined && found.over > now() ? found.value : undefined;
}
