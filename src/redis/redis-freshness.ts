import { createHash } from 'node:crypto';
import {
  checkLease,
  SESSION_LIFE,
  type CacheScope,
  type FreshnessStore,
  type Scope,
  type SessionCall,
  type SessionData,
  type SessionReply,
} from '../freshness/freshness-store.ts';
import type { Sealer } from '../common/sealing.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import { sessionScript, tokensScript } from './freshness-scripts.ts';
import type { RedisConnections } from './redis-connections.ts';

/** All in one hash slot, so that one script may touch them. Other versions of the gateway may use other names. */
export const freshnessKey = (namespace: string, rest: string) => `{${namespace}}:2:${rest}`;

/** What stands in names of channels and in receipts: nothing else than ids that gateways make. */
const ID = /^[\w-]{1,100}$/;

/** Tokens and sessions in Redis, shared by all gateways of one namespace. */
export function createRedisFreshness(options: {
  connections: Pick<RedisConnections, 'reader' | 'epochs' | 'subscriber'>;
  breaker: CircuitBreaker;
  namespace: string;
  /** Encrypts what a record says of user, catalog and engine; the script compares only whether it is equal. */
  sealer: Sealer;
  /** Names this gateway. Random, and new with every store: two must never share it. */
  gateway: string;
  /** Milliseconds for which this gateway uses what it reads now. */
  lease: () => number;
  /** The longest lease that the configuration of any gateway may name (ms). */
  longestLease: number;
  /** Milliseconds after which the token of a project that no request asks for is dropped. */
  unusedAfter: number;
  /** The same of a session. */
  life?: number;
  newToken: () => string;
  /** The configured secret of the keys, or a new one that is used if there is none in Redis yet. */
  keySecret: { readonly configured: string | undefined; readonly fresh: string };
  onError: (error: unknown) => void;
}): FreshnessStore & {
  /** Does all that a look-up needs of Redis, for no request; rejects when Redis does not do it. */
  probe(): Promise<void>;
} {
  const { connections, breaker, sealer, gateway, lease, longestLease, newToken } = options;
  const { life = SESSION_LIFE } = options;
  const key = (rest: string) => freshnessKey(options.namespace, rest);
  const common = ['incarnation', 'leases', 'epoch:everything', 'epoch:sessions'].map(key);
  const channel = key('forget');
  /** Where acknowledgements for a gateway are told. */
  const channelTo = (other: string) => key(`forgotten:${other}`);
  let closed = false;

  const caller = (what: string) => [what, gateway, lease(), longestLease, newToken()];

  async function tokens(
    mode: 'read' | 'renew',
    scopes: readonly Scope[],
    redis = connections.epochs,
  ) {
    const reply = await tokensScript(
      redis,
      [...common, key('key-secret'), ...scopes.map((scope) => key(`epoch:${scope}`))],
      [
        ...caller(mode),
        options.keySecret.fresh,
        options.unusedAfter,
        ...scopes.map(() => newToken()),
      ],
    );
    if (!isStrings(reply) || reply.length !== scopes.length + 4) {
      throw new Error('the script of the tokens answered something else than tokens');
    }
    const [incarnation = '', longest, others, secret = '', ...read] = reply;
    return { incarnation, longest: Number(longest), others: Number(others), secret, read };
  }

  async function askSession(name: string, call: SessionCall): Promise<SessionReply> {
    // A session id gives the right to act in that session, so ids do not stand in Redis.
    const session = key(`session:${createHash('sha256').update(name).digest('base64url')}`);
    // Bound to the session: what was noted of one cannot be put in the place of another.
    const context = `${session} data`;
    const { token, expected, data, at, dirty } = { ...NO_ARGUMENTS, ...call };
    const reply = await sessionScript(
      call.do === 'read' || call.do === 'peek' ? connections.reader : connections.epochs,
      [...common, session],
      [
        ...caller(call.do),
        token,
        expected,
        data === undefined ? '' : sealer.sealText(textOf(data), context),
        data?.forwardedAt ?? at,
        dirty ? 1 : 0,
        life,
      ],
    );
    return readReply(reply, (text) => sealer.openText(text, context));
  }

  return {
    async read(scopes) {
      const { secret, read } = await breaker.run(() => tokens('read', scopes, connections.reader));
      return { tokens: read, keySecret: options.keySecret.configured ?? secret };
    },
    async probe() {
      await tokens('read', [], connections.reader);
    },
    // Not through the breaker: a purge always tries.
    async renew(scopes) {
      const own = lease();
      const { incarnation, longest, others } = await tokens('renew', scopes);
      return {
        incarnation,
        others,
        lease: checkLease(longest, own, longestLease, key('leases')),
      };
    },
    // On the connection of the renewals: what one server is told first, it does first.
    async incarnation() {
      return (await tokens('read', [])).incarnation;
    },
    // A statement that makes a session dirty waits for it, so it always tries.
    session: (name, call) =>
      call.do === 'renew' ? askSession(name, call) : breaker.run(() => askSession(name, call)),
    async announce({ purge, scopes }) {
      const message = JSON.stringify({ purge, scopes, gateway });
      await connections.epochs.publish(channel, message);
    },
    listen(listener) {
      const { subscriber } = connections;
      const own = channelTo(gateway);
      const subscribe = () => void subscriber.subscribe(channel, own).catch(options.onError);
      if (subscriber.status === 'ready') subscribe();
      subscriber.on('ready', subscribe);
      subscriber.on('message', (heardOn, message) => {
        const told = closed ? undefined : readMessage(message);
        if (told === undefined) return;
        const { purge, scopes, gateway: from } = told;
        if (heardOn === own) return listener.forgotten(purge, from);
        if (heardOn !== channel || scopes === undefined) return;
        listener.renewed(scopes);
        if (from === gateway) return;
        const answer = JSON.stringify({ purge, gateway });
        connections.epochs.publish(channelTo(from), answer).catch(options.onError);
      });
    },
    async close() {
      closed = true;
    },
  };
}

const NO_ARGUMENTS = { token: '', expected: '', data: undefined, at: 0, dirty: false } as const;

/** JSON, so that every text comes back as it was, and equal ones are equal bytes for the script. */
function textOf({ principal, replica, spelling, catalog, profile }: SessionData): string {
  return JSON.stringify({ principal, replica, spelling, catalog, profile });
}

/**
 * The lease alone where there is no record, or one that does not open: it was noted with another key. Throws for
 * what the script of this version does not answer.
 */
function readReply(reply: unknown, open: (text: string) => string | undefined): SessionReply {
  if (!isStrings(reply) || (reply.length !== 1 && reply.length !== 5)) throw unreadable();
  const [lease, dirty, sealed, version = '', at] = reply;
  const opened = sealed && open(sealed);
  // Where there is no key, everything opens, also what another gateway has sealed: that is no JSON.
  if (!opened?.startsWith('{')) return { lease: numberOf(lease) };
  const data = JSON.parse(opened) as SessionData;
  const { principal, replica, spelling, profile, catalog } = data;
  if (!isStrings([principal, replica, spelling, profile, catalog ?? ''])) throw unreadable();
  const record = { ...data, dirty: dirty !== '0', version, forwardedAt: numberOf(at) };
  return { lease: numberOf(lease), record };
}

/** `{ purge, gateway }`, with `scopes` where others are told to forget them. Undefined for what is no message. */
function readMessage(
  message: string,
): { purge: string; gateway: string; scopes?: readonly CacheScope[] } | undefined {
  try {
    const { purge, gateway, scopes } = JSON.parse(message) as Record<string, unknown>;
    if (typeof purge !== 'string' || typeof gateway !== 'string') return undefined;
    if (!ID.test(purge) || !ID.test(gateway)) return undefined;
    // What is no name of a scope is forgotten without harm.
    return isStrings(scopes)
      ? { purge, gateway, scopes: scopes as CacheScope[] }
      : { purge, gateway };
  } catch {
    return undefined;
  }
}

function numberOf(text: string | undefined): number {
  const number = Number(text);
  if (text === undefined || !Number.isFinite(number)) throw unreadable();
  return number;
}

function isStrings(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function unreadable(): Error {
  return new Error('the script of the sessions answered something else than a session');
}
