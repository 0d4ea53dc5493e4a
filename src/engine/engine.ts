import type { IncomingMessage, ServerResponse } from 'node:http';
import type { EngineClear } from '../cache/purge/purge.ts';
import type { AnswerHead } from '../cache/query.ts';
import type { QueryParameter } from '../proxy/forwarded.ts';

/** Where a request goes and in whose name. */
export interface EngineAddressee {
  /** Decoded project of the request path. */
  readonly project: string | undefined;
  readonly query: readonly QueryParameter[];
  /** Whose place at the engine it takes. */
  readonly user: string;
  /** The client's own header Authorization, for `engine.login: forward`. */
  readonly authorization: string | undefined;
  /** The replica to which it must go, as `Engine.replicaFor` named it; undefined for any that can be reached. */
  readonly replica: string | undefined;
}

/** The headers of a cacheable request: these and nothing else of the client's. */
export interface QueryHeaders {
  readonly 'content-type': string;
  readonly soapaction: string;
  readonly accept: string | undefined;
  readonly 'user-agent': string | undefined;
  /** The caller's session, where it named it in this header (SSAS). */
  readonly 'x-as-sessionid': string | undefined;
}

/**
 * What became of the answer to a request: it came whole; it broke off or never came, and the engine may be at work
 * still; or no byte of the request was handed to a connection that was made.
 */
export type AnswerEnd = 'whole' | 'broken' | 'not-sent';

/** Sees an answer that is passed through, with its content coding removed. */
export interface AnswerWatch {
  /** Whether the client must not have the last 16 KiB before the watch has agreed to the end. */
  readonly holdsLast: boolean;
  /** Before anything else. Bytes are handed on only after what it returned has resolved. */
  head(head: AnswerHead): void;
  /** Each piece in order. The client is given the piece after what this returned has resolved. */
  write(chunk: Buffer): void | Promise<void>;
  /**
   * After the last byte, or when none can come any more; the client has the end after it has resolved. When it
   * rejects, the client is told that instead of the answer, or, when that has begun, broken off.
   */
  end(outcome: AnswerEnd): void | Promise<void>;
}

/** What became of an empty Execute by which a session is kept alive. */
export type Touch =
  | { readonly kind: 'alive' }
  /** The engine no longer knows the session, or refuses it: this is what the client is answered. */
  | { readonly kind: 'fault'; readonly head: AnswerHead; readonly body: Buffer }
  /** The engine could not be asked. */
  | { readonly kind: 'failed' };

/** A call of the engine's own clear operation at one replica, which is still to be made. */
export interface ClearCall {
  /** Equal for calls that would do the same. Holds the login: never shown. */
  readonly id: string;
  /** Takes no longer than `engine.timeout` or 30 seconds. Never rejects. */
  make(): Promise<EngineClear>;
}

/** What becomes of a request that is passed through. */
export interface PassThroughClient {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Aborted when the client goes away. */
  readonly signal: AbortSignal;
  /** Begins the answer with the headers that the engine sent, less those that are not the client's. */
  open(head: AnswerHead): void;
  /** Counts bytes of the answer's body. */
  sent(bytes: number): void;
  fail(error: unknown): void;
}
