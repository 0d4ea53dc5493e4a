import type { RequestHandler } from 'express';
import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { canonicalAuthorization, type Login, throttled } from '../auth/authenticator.ts';
import { type AskLeave, createBuckets } from '../auth/login-throttle.ts';
import type { Purge, PurgeOrder } from '../cache/purge/purge.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import type { HookConfig } from '../features/hooks/config.ts';
import { sendJson } from './answers.ts';
import { purgeFailure } from './clear-cache.ts';
import { readBody } from './read-body.ts';
import { forgedAct, nameRequest } from './request-head.ts';

/** Kylin gives up a call after 3 s, dbt after 10 s: so long after its head it is answered at the latest (ms). */
const ANSWERED_WITHIN = 2_500;
const LARGEST_BODY = 65_536;
/** So many are read at one time of callers with a login, and as many of those who have not shown yet that they know a secret. */
const BODIES = 64;
/** No body has so many bytes as the pace: one that has not come whole in ten seconds is broken off. */
const READING = { limitName: 'the most of a hook', pace: LARGEST_BODY + 1 };
/** Calls of a hook that purge: so many at once, and one more in so many milliseconds. */
const CALLS = { burst: 60, refill: 1_000 };
/** How far the time of a signed message may be from that of this gateway (ms). */
const CLOCKS_DIFFER = 600_000;
/** For so long one that was taken must be known (ms): its time may be ahead first, and behind then. */
export const MESSAGE_LIFE = 2 * CLOCKS_DIFFER;

type Text = (field: string) => string;
/** What a message asks for. `at`: when it was made, where it is signed and must not come twice (wall clock, ms). */
type Order = { readonly projects: readonly string[]; readonly at?: number };

interface Format {
  /** `login`: HTTP Basic, of the user of the hook; `signature`: hex HMAC-SHA256 of the body in the header Authorization. */
  readonly proof: 'login' | 'signature';
  /** Undefined: nothing that answers depend on has changed. @throws GatewayError `bad-request`, `forbidden` */
  read(text: Text, projects: HookConfig['projects']): Order | undefined;
}

const FORMATS: Readonly<Record<HookConfig['format'], Format>> = {
  // https://kylin.apache.org: what kylin.job.finished-notifier-url is sent; a job that failed may have changed something before.
  kylin5: {
    proof: 'login',
    read(text, projects) {
      const project = projects.get(text('project'));
      if (project === undefined) throw refused('it names a project that is not of this hook');
      return KYLIN_UNCHANGING.has(text('job_type')) ? undefined : { projects: [project] };
    },
  },
  // https://docs.getdbt.com/docs/deploy/webhooks
  dbt: {
    proof: 'signature',
    read(text, projects) {
      const [event, time] = ['eventType', 'timestamp', 'eventId'].map(text);
      const at = Date.parse(time ?? '');
      if (Number.isNaN(at)) throw unreadable('timestamp is no time of ISO 8601');
      return DBT_ENDS.has(event ?? '') ? { projects: [...projects.values()], at } : undefined;
    },
  },
};

/** Types of jobs (JobTypeEnum) after which answers are the same. One that is not known may change data. */
const KYLIN_UNCHANGING = new Set('INDEX_BUILD TABLE_SAMPLING ASYNC_QUERY'.split(' '));
const DBT_ENDS = new Set('job.run.completed job.run.errored'.split(' '));

const INTERNAL = { status: 500, message: 'the gateway failed; its log tells more under the id' };
const refused = (why: string) => new GatewayError('forbidden', `Nothing was done: ${why}.`);
const unreadable = (why: string) => new GatewayError('bad-request', `Nothing was done: ${why}.`);

/** @throws GatewayError `bad-request` */
function readFields(body: Buffer): Text {
  let message: unknown;
  try {
    message = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    throw unreadable('the body is no JSON in UTF-8');
  }
  const fields = typeof message === 'object' && !Array.isArray(message) ? message : undefined;
  if (!fields) throw unreadable('the body is no JSON object');
  return (name) => {
    const { [name]: text } = fields as Readonly<Record<string, unknown>>;
    if (typeof text === 'string' && text !== '') return text;
    throw unreadable(`the message has no ${name}, which must be a text`);
  };
}

export interface HookOptions {
  readonly hooks: ReadonlyMap<string, HookConfig>;
  readonly login: Login;
  readonly askLeave: AskLeave;
  readonly addressOf: (request: IncomingMessage) => string;
  /** Messages that were taken, for {@link MESSAGE_LIFE}. */
  readonly taken: { begin(digest: string): Promise<boolean>; undo(digest: string): Promise<void> };
  readonly purge: Purge;
  /** Told of a purge, which may end after the answer. */
  readonly during: <T>(work: Promise<T>) => Promise<T>;
  readonly clock: Pick<Clock, 'now' | 'wall'>;
  readonly newId: () => string;
  readonly emit: Emit;
}

/**
 * `POST /hooks/NAME`: a job of an engine, or what loads its data, tells that data was loaded. Serves what is below /hooks;
 * names that are not configured are left to what follows.
 */
export function createHooks(options: HookOptions): RequestHandler {
  const { hooks, taken, clock, emit } = options;
  const bucketOf = createBuckets(CALLS, options);
  const reading = { login: new Set<IncomingMessage>(), signature: new Set<IncomingMessage>() };

  /** Of too many the oldest is broken off, so that none who sends little by little keeps out who sends in one go. */
  function read(request: IncomingMessage, proof: Format['proof']): Promise<Buffer> {
    const bodies = reading[proof];
    const [oldest] = bodies;
    if (oldest !== undefined && bodies.size >= BODIES) {
      bodies.delete(oldest);
      oldest.destroy(new Error('too many others came'));
    }
    bodies.add(request);
    return readBody(request, LARGEST_BODY, READING).finally(() => bodies.delete(request));
  }

  /** @returns the body of a message that the hook may believe */
  async function receive(name: string, hook: HookConfig, request: IncomingMessage, id: string) {
    const forged = forgedAct(request.headers);
    if (forged !== undefined) throw refused(forged);
    const { proof } = FORMATS[hook.format];
    if (proof === 'login') {
      const principal = await options.login(request, id);
      if (principal.name === hook.user) return read(request, proof);
      throw refused(`${principal.name} is not the user of this hook`);
    }
    const { authorization = '' } = request.headers;
    if (!/^[\da-f]{64}$/i.test(authorization)) throw unsigned();
    // Before the body, so that no address has many of them read.
    const leave = await options.askLeave(`hook:${name}`, options.addressOf(request));
    if (typeof leave === 'number') throw throttled(leave);
    const body = await read(request, proof);
    const { secret = '' } = hook;
    const signature = createHmac('sha256', secret).update(body).digest();
    const isRight = timingSafeEqual(signature, Buffer.from(authorization, 'hex'));
    void leave(isRight ? 'succeeded' : 'failed');
    if (!isRight) throw unsigned();
    return body;
  }

  /** Takes a signed message, which may come once. @returns gives it back */
  async function takeOnce(name: string, body: Buffer, at: number) {
    if (Math.abs(clock.wall() - at) > CLOCKS_DIFFER) {
      throw refused('the time of the message is more than ten minutes from that of the gateway');
    }
    const message = `hook:${name}:${hash('sha256', body, 'base64url')}`;
    if (!(await taken.begin(message))) throw refused('the message was taken already');
    return () => taken.undo(message);
  }

  /** @throws GatewayError `engine-not-cleared` */
  async function purgeAll(projects: readonly string[], by: PurgeOrder) {
    const ends = await Promise.all(projects.map((project) => options.purge({ project }, by)));
    for (const end of ends) {
      if ('receipt' in end && !end.ok) throw purgeFailure(end.receipt.scope, end);
    }
    return ends.every(({ ok }) => ok) ? ('cleared' as const) : ('accepted' as const);
  }

  async function call(name: string, hook: HookConfig, request: IncomingMessage, id: string) {
    const began = clock.now();
    const headers = { allow: 'POST' };
    if (request.method !== 'POST')
      throw new GatewayError('method-not-allowed', 'Allowed here: POST.', { headers });
    const body = await receive(name, hook, request, id);
    const order = FORMATS[hook.format].read(readFields(body), hook.projects);
    if (order === undefined) return { result: 'ignored' as const, projects: [] };
    const { projects, at } = order;
    const undo = at === undefined ? async () => {} : await takeOnce(name, body, at);
    const bucket = bucketOf(name);
    if (bucket.wait() > 0) {
      await undo();
      const text = 'Nothing was done: this hook was called too often. Try again later.';
      throw new GatewayError('throttled', text, { retryAfter: Math.ceil(bucket.wait() / 1000) });
    }
    bucket.add(-1);
    const authorization = canonicalAuthorization(request.headers.authorization);
    const by = { principal: `hook:${name}`, cause: 'hook', call: id, authorization } as const;
    const purged = purgeAll(projects, by).catch(async (error: unknown) => {
      await undo();
      throw error;
    });
    const left = Math.max(0, ANSWERED_WITHIN - (clock.now() - began));
    const late = delay(left, 'accepted' as const, { ref: false });
    return { result: await Promise.race([options.during(purged), late]), projects };
  }

  return async (request, response, next) => {
    const name = /^\/([\w-]{1,64})\/?$/.exec(request.path)?.[1] ?? '';
    const hook = hooks.get(name);
    if (hook === undefined) return next();
    const id = nameRequest(request, response, options.newId);
    const told = { type: 'hook-called', id, hook: name } as const;
    try {
      const { result, projects } = await call(name, hook, request, id);
      emit({ ...told, result, projects });
      sendJson(response, { status: result, id });
    } catch (error) {
      const { status, message } = error instanceof GatewayError ? error : INTERNAL;
      const result = status < 500 ? ('refused' as const) : ('failed' as const);
      emit({ ...told, result, projects: [], why: message });
      throw error;
    }
  };
}

const UNSIGNED =
  'Nothing was done: Authorization must be the hex HMAC-SHA256 of the body by the secret of the hook.';
/** Without `WWW-Authenticate`: no login helps. */
const unsigned = () => new GatewayError('unauthenticated', UNSIGNED);
