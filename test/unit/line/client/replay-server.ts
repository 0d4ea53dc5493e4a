import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import { XmlaClient } from '../../../../src/line/client.ts';
import { createMemoryTier } from '../../../../src/cache/memory-tier.ts';
import type { Deflated, makeVariant, StoredAnswer } from '../../../../src/cache/stored-answer.ts';
import { mddatasetAnswer } from '../../../support/answers.ts';
import { send } from '../../../support/http-client.ts';
import { bodyAccount, handClock } from '../../cache/fakes.ts';
import { answerWith } from '../../cache/stored-answer/session-documents.ts';

export const WHOLE = mddatasetAnswer({
  cells: 100,
  header: '<Session xmlns="urn:x" SessionId=""/>',
});
const AT = WHOLE.indexOf('SessionId="') + 'SessionId="'.length;
export const inSession = (written: string) =>
  Buffer.from(WHOLE.slice(0, AT) + written + WHOLE.slice(AT));

export const LONG = answerWith({ body: Buffer.from(WHOLE), session: undefined });
export const WITH_SESSION = answerWith({
  body: Buffer.from(WHOLE),
  session: { at: AT, encoding: 'utf-8' },
});
export const SHORT = answerWith({ body: Buffer.from('<a/>'), session: undefined });

const servers: Server[] = [];

/** Ends every server of a test; to be called after each. */
export function closeServers(): void {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
}

export type Facts = {
  readonly sessionId?: string;
  readonly gzip?: () => Deflated | undefined;
  readonly plain?: Buffer;
};

/** A server whose client of each request is told what to do; failures are answered as the handler does. */
export async function serve(
  answer: (client: XmlaClient) => void | Promise<void>,
  account = bodyAccount(),
) {
  const events: GatewayEvent[] = [];
  const responses: ServerResponse[] = [];
  const clock = handClock();
  const memory = createMemoryTier({ maxBytes: 100_000, clock, account });
  const server = createServer((request, response) => {
    const emit = (event: GatewayEvent) => void events.push(event);
    const client = new XmlaClient(request, response, {
      newId: () => 'id',
      addressOf: () => '127.0.0.1',
      clock,
      emit,
      account,
      holdBody: memory.hold,
      patience: () => 30_000,
      pageOrigins: undefined,
    });
    client.watch();
    responses.push(response);
    void (async () => answer(client))().catch((error: unknown) => client.fail(error));
  });
  servers.push(server);
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ask = (headers: Record<string, string> = {}) => send(url, { method: 'POST', headers });
  return { url, events, responses, ask, account, memory, clock };
}

export function replay(
  client: XmlaClient,
  answer: StoredAnswer,
  { sessionId, gzip, plain }: Facts = {},
): void {
  client.replay(answer, {
    outcome: { kind: 'hit', detail: 'memory' },
    ttl: 30_000,
    age: 1_500,
    sessionId,
    text: (compressed) => (compressed ? gzip?.() : plain) ?? answer.body,
  });
}

/** What memory does with an answer that it holds. */
export function gzipSource(
  answer: StoredAnswer,
  compress?: typeof makeVariant,
): () => Deflated | undefined {
  const parts = { maxBytes: 1_000_000, clock: handClock(), account: bodyAccount() };
  const tier = createMemoryTier(compress === undefined ? parts : { ...parts, compress });
  tier.set('key', answer, 'digests');
  return () => {
    const text = tier.textOf('key', answer, true);
    return Buffer.isBuffer(text) ? undefined : text;
  };
}

export const GZIP = { 'accept-encoding': 'gzip, deflate' };
