import type { IncomingHttpHeaders } from 'node:http';
import type { EngineTraits } from '../common/engine-kinds.ts';
import type { Outcome } from '../common/events.ts';
import type { RefusalReason } from '../common/reasons.ts';
import type { CapturedEpochs } from '../freshness/freshness.ts';
import type { AnswerText, StoredAnswer } from './stored-answer.ts';
import type { Named, PartDigests } from './key.ts';

/** One cacheable request. What is told here never throws or rejects. */
export interface Query extends Named {
  /** How long the engine may be silent (ms). */
  readonly timeout: number;
  /** The project of the request path, '' without one; for events. */
  readonly project: string;
  readonly engineTraits: Pick<EngineTraits, 'errorsAsData' | 'successHeader'>;
  readonly session: QuerySession | undefined;
  /** The client wants a new answer: none that is stored, or of a flight that began before. */
  readonly fresh: boolean;
  /** No user waits for it. */
  readonly background?: boolean;
  /** Told when there is an answer without a Fault: found, or whole from the engine. */
  answered?(): void;
  /** Told when it was answered from memory or tier 2: under this key it will be found again. */
  found?(known: KnownKey): void;
  /** Told of a session that the engine began by itself, before the client has the last byte. */
  began(sessionId: string, before: readonly string[]): Promise<void>;
  /**
   * Asks the engine.
   * @param signal ends the request, also in its answer
   * @param unwanted no client waits any more, so it need not wait for the engine
   * @throws GatewayError, or the reason of `unwanted`
   */
  ask(signal: AbortSignal, unwanted?: () => AbortSignal): Promise<EngineAnswer>;
}

export interface QuerySession {
  /** The caller's id, which stands in the caller's answers instead of any other. */
  readonly id: string;
  /** The only replica that is asked in it; undefined where any is. */
  readonly replica?: string | undefined;
  /** Confirms that it is the same and clean: else nothing that ran in it may be kept or shared. */
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
  /** Bytes of the whole body, behind its end. */
  readonly length: () => number;
  /** When the first byte was handed to the engine: monotonic and wall clock, ms. */
  readonly began: { readonly now: number; readonly wall: number };
  readonly replica: string;
}

/** A key that was made for a query, and what it was made under; `ttl` in milliseconds. */
export interface KnownKey {
  readonly key: string;
  readonly captured: CapturedEpochs;
  readonly ttl: number;
  readonly digests: PartDigests;
}

/** Port: the client that waits for an answer. Nothing here throws when it has gone away. */
export interface Client {
  /** Aborted when the client goes away before it had its whole answer. */
  readonly signal: AbortSignal;
  /**
   * Begins to wait, for the engine or for what another request gets from it, or goes on doing so.
   * @param uncounted what of the time since then is no waiting (ms)
   * @returns for how long it may until it is at the engine (ms); 0 when it has waited that long
   */
  waits(uncounted?: number): number;
  /** Sends a stored answer whole: times in milliseconds, `sessionId` where the answer shows one. */
  replay(
    answer: StoredAnswer,
    facts: {
      readonly outcome: Extract<Outcome, { readonly kind: 'hit' }>;
      readonly ttl: number;
      readonly age: number;
      readonly sessionId: string | undefined;
      /** Its text as it goes out; by default as it lies in the answer. */
      readonly text?: (compressed: boolean) => AnswerText;
    },
  ): void;
  /** Begins an answer of the engine. `length` is given when the whole body is known already. */
  open(head: AnswerHead, outcome: Outcome, length: number | undefined): void;
  /** Told once it is known that an answer that has begun is not stored. */
  notStored(reason: RefusalReason): void;
  /** False when the client is slower than the engine; see {@link Client.drained}. */
  write(chunk: Buffer): boolean;
  /** Bytes that were written, and that the client has not taken yet. */
  backlog(): number;
  /** Resolves when the client took what was written, or went away. */
  drained(): Promise<void>;
  /**
   * @param length bytes of the whole body: an answer that was to end behind another number of
   *   them fails
   * @param last bytes of the body: short ones are one write with what stands before them
   */
  end(length: number, last?: Buffer): void;
  /** Resolves when nothing of the answer is in memory for this client any more. */
  over(): Promise<void>;
  /** Answers with an error, or, when an answer has begun, breaks the connection off. */
  fail(error: unknown): void;
}
