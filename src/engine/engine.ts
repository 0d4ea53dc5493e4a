import type { IncomingMessage, ServerResponse } from 'node:http';
import type { QueryParameter } from '../proxy/forwarded-query.ts';
import type { AnswerHead, EngineAnswer } from '../query-cache/query.ts';

/** Where a request goes and in whose name. */
export interface EngineAddressee {
  /** Decoded project of the request path. */
  readonly project: string | undefined;
  readonly query: readonly QueryParameter[];
  /** Whose place at the engine it takes. */
  readonly user: string;
  /** The client's own header Authorization, for `engine.login: forward`. */
  readonly authorization: string | undefined;
}

/** The headers of a cacheable request: these and nothing else of the client's. */
export interface QueryHeaders {
  readonly 'content-type': string;
  readonly soapaction: string;
  readonly accept: string | undefined;
  readonly 'user-agent': string | undefined;
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

/** Port: one OLAP engine. */
export interface Engine {
  /** Tells engines apart in keys: what of the configuration can change an answer. */
  readonly id: string;
  /** Whether it is told the project of the request path, so that its answers are of that project. */
  readonly tellsProject: boolean;
  /**
   * Sends a cacheable request.
   * @throws GatewayError `engine-unreachable`, `engine-timeout`, `engine-login`, `overloaded`
   */
  ask(
    addressee: EngineAddressee,
    headers: QueryHeaders,
    body: Buffer,
    signal: AbortSignal,
  ): Promise<EngineAnswer>;
  /**
   * Replays a request through to the engine, with the client's own headers less the identity ones, and
   * streams the answer. Resolves when it is over; failures go to `client.fail`.
   * @param body the whole body, its content coding removed; undefined without one
   */
  passThrough(
    addressee: EngineAddressee,
    client: PassThroughClient,
    body: Buffer | undefined,
  ): Promise<void>;
  /** Whether a connection to it can be made. */
  reachable(): Promise<boolean>;
  close(): void;
}
