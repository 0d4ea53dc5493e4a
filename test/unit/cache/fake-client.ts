import type { Outcome } from '../../../src/common/events.ts';
import type { Client } from '../../../src/cache/query.ts';
import {
  type AnswerText,
  type StoredAnswer,
  withSession,
} from '../../../src/cache/stored-answer.ts';
import { bytesIn } from './stored-answer/session-documents.ts';

export interface FakeClient extends Client {
  /** Set by the first that says it: the head of an engine's answer, or a replay. */
  readonly outcome: Outcome | undefined;
  readonly body: string;
  readonly ttl: number | undefined;
  readonly age: number | undefined;
  /** What a replay was told to put in and to keep. */
  readonly sessionId: string | undefined;
  readonly text: ((compressed: boolean) => AnswerText) | undefined;
  /** What was replayed. */
  readonly answer: StoredAnswer | undefined;
  readonly failure: unknown;
  readonly ended: boolean;
  /** Goes away. */
  leave(): void;
}

/** @param patience how long it may wait (ms) */
export function fakeClient(patience = 300_000): FakeClient {
  const gone = new AbortController();
  const chunks: Buffer[] = [];
  const said: {
    outcome?: Outcome;
    ttl?: number;
    age?: number;
    sessionId?: string;
    text?: (compressed: boolean) => AnswerText;
    answer?: StoredAnswer;
    failure?: unknown;
  } = {};
  let ended = false;
  return {
    signal: gone.signal,
    waits: () => patience,
    replay(answer, facts) {
      Object.assign(said, facts, { answer });
      chunks.push(bytesIn(answer.body));
      ended = true;
    },
    open(_head, outcome) {
      said.outcome = outcome;
    },
    write(chunk) {
      chunks.push(Buffer.from(chunk));
      return true;
    },
    notStored() {},
    backlog: () => 0,
    async drained() {},
    async over() {},
    end(_length, last) {
      if (last !== undefined) chunks.push(Buffer.from(last));
      ended = true;
    },
    fail(error) {
      if (!gone.signal.aborted) said.failure = error;
    },
    leave: () => gone.abort(new Error('gone')),
    get outcome() {
      return said.outcome;
    },
    get body() {
      return Buffer.concat(chunks).toString();
    },
    get ttl() {
      return said.ttl;
    },
    get age() {
      return said.age;
    },
    get sessionId() {
      return said.sessionId;
    },
    get text() {
      return said.text;
    },
    get answer() {
      return said.answer;
    },
    get failure() {
      return said.failure;
    },
    get ended() {
      return ended;
    },
  };
}

/** What a client was told, in short: `hit:memory`, `miss`, `miss:fault`, `bypass:epochs-unknown`. */
export function told(client: FakeClient): string {
  if (client.failure !== undefined) return 'failure';
  const { kind, detail } = client.outcome ?? { kind: 'nothing', detail: undefined };
  return detail === undefined ? kind : `${kind}:${detail}`;
}

/** What the client of a replay would be sent. */
export function sent({ answer, sessionId }: FakeClient): string {
  if (answer === undefined) throw new Error('nothing was replayed');
  return `${Buffer.concat(withSession({ ...answer, body: bytesIn(answer.body) }, sessionId))}`;
}
