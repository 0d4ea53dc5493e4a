import type { IncomingHttpHeaders } from 'node:http';
import type { EngineTraits } from '../common/engine-kinds.ts';
import type { Outcome } from '../common/events.ts';
import type { RefusalReason } from '../common/reasons.ts';
import type { CapturedEpochs } from '../freshness/freshness.ts';
import type { AnswerText, StoredAnswer } from './stored-answer.ts';
import type { Named, PartDigests } from './key.ts';

/** A cacheable request. Its calls never throw or reject, but `ask`. */
export interface Query extends Named {
  /** Longest silence of the engine (ms). */
  readonly timeoutMs: number;
  readonly project: string;
  readonly engineTraits: Pick<EngineTraits, 'errorsAsData' | 'successHeader'>;
  /** The only names that rows of its answer may tell of, folded. */
  readonly properties?: ReadonlySet<string> | undefined;
  readonly session: QuerySession | undefined;
  /** The client wants a new answer: neither stored, nor of a flight that began before. */
  readonly fresh: boolean;
  readonly background?: boolean;
  /** True while no connection to the engine can be made, and no request need try now. */
  isAway?(): boolean;
  /**
   * Reads session and roles anew. The check counts in its turn: how long past its ttl an entry may
   * answer behind a failure of the engine (ms); 0: none may, however young.
   */
  ifError?(): Promise<() => number>;
  /** Called when there is an answer without a Fault: found, or whole from the engine. */
  answered?(): void;
  /**
   * Called when a tier had the answer: it will be found under this key again.
   * @param ending the answer, where it should be asked for ahead
   */
  found?(known: KnownKey, ending: StoredAnswer | undefined): void;
  /** Called for a session that the engine began, before the client has the last byte. */
  began(sessionId: string, before: readonly string[]): Promise<void>;
  /**
   * @param unwanted ends its wait for the engine, when no client waits any more
   * @throws GatewayError, or the reason of `unwanted`; EngineFailure when no byte came
   */
  ask(signal: AbortSignal, unwanted?: () => AbortSignal): Promise<EngineAnswer>;
}

export interface QuerySession {
  /** The caller's id, which replaces any other in its answers. */
  readonly id: string;
  readonly replica?: string | undefined;
  /** False: nothing that ran in it may be kept or shared. */
  confirm(): boolean | Promise<boolean>;
}

export interface AnswerHead {
  readonly status: number;
  readonly statusMessage: string;
  readonly headers: IncomingHttpHeaders;
}

export interface EngineAnswer {
  readonly head: AnswerHead;
  /** Throws when the answer breaks off. Leaving the loop early ends the engine request. */
  readonly body: AsyncIterable<Buffer>;
  readonly length: () => number;
  /** Its first byte, by both clocks (ms). */
  readonly began: { readonly now: number; readonly wall: number };
  readonly replica: string;
}

/** A key and what it was made under; `ttl` in milliseconds. */
export interface KnownKey {
  readonly key: string;
  readonly captured: CapturedEpochs;
  readonly ttl: number;
  readonly digests: PartDigests;
}

/** Port: the client of an answer. Nothing here throws when it has gone. */
export interface Client {
  /** Aborts when it goes away before it has its whole answer. */
  readonly signal: AbortSignal;
  /**
   * Begins a wait, or goes on. `uncounted` is no wait (ms). Returns the longest wait until it is at
   * the engine (ms).
   */
  waits(uncounted?: number): number;
  /** Sends a stored answer; times in milliseconds, `sessionId` where the answer shows one. */
  replay(
    answer: StoredAnswer,
    facts: {
      readonly outcome: Extract<Outcome, { readonly kind: 'hit' }>;
      readonly ttl: number;
      readonly age: number;
      readonly sessionId: string | undefined;
      readonly text?: (compressed: boolean) => AnswerText;
    },
  ): void;
  open(head: AnswerHead, outcome: Outcome, length: number | undefined): void;
  notStored(reason: RefusalReason): void;
  /** False when the client is slower than the engine; see {@link Client.drained}. */
  write(chunk: Buffer): boolean;
  backlog(): number;
  drained(): Promise<void>;
  /** Fails where another number of bytes was sent than `length`, the whole body. */
  end(length: number, last?: Buffer): void;
  over(): Promise<void>;
  /** Sends an error, or breaks an answer off that has begun. */
  fail(error: unknown): void;
}
