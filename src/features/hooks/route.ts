import { hash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { RequestHandler } from 'express';
import { canonicalAuthorization, throttled } from '../../auth/authenticator.ts';
import { createBuckets } from '../../auth/login-throttle.ts';
import type { PurgeOrder } from '../../cache/purge/purge.ts';
import { pause } from '../../common/clock.ts';
import { GatewayError } from '../../common/errors.ts';
import type { createOnce } from '../../freshness/fleet.ts';
import { sendJson } from '../../http/answers.ts';
import { purgeFailure } from '../../http/clear-cache.ts';
import { readBody } from '../../http/read-body.ts';
import { nameRequest, forgedAct } from '../../http/request-head.ts';
import type { Core, RuntimeCore } from '../feature.ts';
import type { HookConfig } from './config.ts';

/** Longest time from a head to its answer: Kylin gives up after 3 s, dbt after 10 s. */
const ANSWERED_WITHIN_MS = 2_500;
/** Calls of a hook that purge: this many at once, and one more each `refill` (ms). */
const CALLS = { burst: 60, refill: 1_000 };
/** Greatest difference between the time of a signed message and that of this gateway. */
const CLOCKS_DIFFER_MS = 600_000;
/** How long a taken message is remembered: its time may be ahead first, and behind then. */
export const MESSAGE_LIFE_MS = 2 * CLOCKS_DIFFER_MS;

const INTERNAL = { status: 500, message: 'the gateway failed; its log tells more under the id' };

type HookParts = Pick<Core, 'purge' | 'clock' | 'emit'> &
  Pick<RuntimeCore, 'login' | 'askLeave' | 'addressOf' | 'during' | 'newId'> & {
    readonly hooks: ReadonlyMap<string, HookConfig>;
    readonly taken: ReturnType<typeof createOnce>;
  };

/** Serves `POST /hooks/NAME`. Names that are not configured are left to the next route. */
export function createHookRoute(parts: HookParts): RequestHandler {
  const { hooks, clock, during, newId, emit } = parts;
  const provenBody = createProvenBody(parts);
  const bucketOf = createBuckets(CALLS, parts);

  async function answerOf(call: HookCall) {
    const { name, hook, request, id } = call;
    const began = clock.now();
    const headers = { allow: 'POST' };
    if (request.method !== 'POST')
      throw new GatewayError('method-not-allowed', 'Allowed here: POST.', { headers });
    const body = await provenBody(call);
    const order = FORMATS[hook.format].read(readFields(body), hook.projects);
    if (order === undefined) return { result: 'ignored' as const, projects: [] };
    const { projects, at } = order;
    const undo = at === undefined ? async () => {} : await takeOnce(name, body, at, parts);
    // It counts as of now: read before an await, it would not know of calls meanwhile.
    const bucket = bucketOf(name);
    if (bucket.wait() > 0) {
      await undo();
      const text = 'Nothing was done: this hook was called too often. Try again later.';
      throw new GatewayError('throttled', text, { retryAfter: Math.ceil(bucket.wait() / 1000) });
    }
    bucket.add(-1);
    const authorization = canonicalAuthorization(request.headers.authorization);
    const by = { principal: `hook:${name}`, cause: 'hook', call: id, authorization } as const;
    const purged = purgeAll(projects, by, parts).catch(async (error: unknown) => {
      await undo();
      throw error;
    });
    const left = Math.max(0, ANSWERED_WITHIN_MS - (clock.now() - began));
    const late = pause(clock, left).then(() => 'accepted' as const);
    return { result: await Promise.race([during(purged), late]), projects };
  }

  return async (request, response, next) => {
    const name = /^\/([\w-]{1,64})\/?$/.exec(request.path)?.[1] ?? '';
    const hook = hooks.get(name);
    if (hook === undefined) return next();
    const id = nameRequest(request, response, newId);
    const told = { type: 'hook-called', id, hook: name } as const;
    try {
      const { result, projects } = await answerOf({ name, hook, request, id });
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

/** Takes a signed message, which may come once. @returns a function that gives it back */
async function takeOnce(name: string, body: Buffer, at: number, { clock, taken }: HookParts) {
  if (Math.abs(clock.wall() - at) > CLOCKS_DIFFER_MS) {
    throw refused('the time of the message is more than ten minutes from that of the gateway');
  }
  const message = `hook:${name}:${hash('sha256', body, 'base64url')}`;
  if (!(await taken.begin(message))) throw refused('the message was taken already');
  return () => taken.undo(message);
}

async function purgeAll(projects: readonly string[], by: PurgeOrder, { purge }: HookParts) {
  const ends = await Promise.all(projects.map((project) => purge({ project }, by)));
  for (const end of ends) {
    if ('receipt' in end && !end.ok) throw purgeFailure(end.receipt.scope, end);
  }
  return ends.every(({ ok }) => ok) ? ('cleared' as const) : ('accepted' as const);
}

const LARGEST_BODY = 65_536;
/** Bodies read together of callers with a login, and as many of callers who sign. */
const BODIES = 64;
/** A pace above every body: a body that takes ten seconds is broken off. */
const READING = { limitName: 'the most of a hook', pace: LARGEST_BODY + 1 };

interface HookCall {
  readonly name: string;
  readonly hook: HookConfig;
  readonly request: IncomingMessage;
  readonly id: string;
}

/** Makes what reads the body of a call, once its sender is proved to be the hook's. */
function createProvenBody({ login, askLeave, addressOf }: HookParts) {
  const read = createBoundedReading();

  async function byLogin({ hook, request, id }: HookCall): Promise<Buffer> {
    const principal = await login(request, id);
    if (principal.name === hook.user) return read(request, 'login');
    throw refused(`${principal.name} is not the user of this hook`);
  }

  async function bySignature({ name, hook, request }: HookCall): Promise<Buffer> {
    const { authorization = '' } = request.headers;
    if (!/^[\da-f]{64}$/i.test(authorization)) throw unsigned();
    // Asked before the body, so that no address has many bodies read.
    const leave = await askLeave(`hook:${name}`, addressOf(request));
    if (typeof leave === 'number') throw throttled(leave);
    const body = await read(request, 'signature');
    const signature = createHmac('sha256', hook.secret ?? '')
      .update(body)
      .digest();
    const isRight = timingSafeEqual(signature, Buffer.from(authorization, 'hex'));
    void leave(isRight ? 'succeeded' : 'failed');
    if (!isRight) throw unsigned();
    return body;
  }

  return async (call: HookCall): Promise<Buffer> => {
    const forged = forgedAct(call.request.headers);
    if (forged !== undefined) throw refused(forged);
    return FORMATS[call.hook.format].proof === 'login' ? byLogin(call) : bySignature(call);
  };
}

/** Breaks off the oldest of too many bodies: a slow sender must not keep out a quick one. */
function createBoundedReading() {
  const reading = { login: new Set<IncomingMessage>(), signature: new Set<IncomingMessage>() };
  return (request: IncomingMessage, proof: Format['proof']): Promise<Buffer> => {
    const bodies = reading[proof];
    const [oldest] = bodies;
    if (oldest !== undefined && bodies.size >= BODIES) {
      bodies.delete(oldest);
      oldest.destroy(new Error('too many others came'));
    }
    bodies.add(request);
    return readBody(request, LARGEST_BODY, READING).finally(() => bodies.delete(request));
  };
}

const UNSIGNED =
  'Nothing was done: Authorization must be the hex HMAC-SHA256 of the body by the secret of the hook.';
/** Without `WWW-Authenticate`: no login helps. */
const unsigned = () => new GatewayError('unauthenticated', UNSIGNED);

/** Reads a field of a message. @throws GatewayError `bad-request` where it is no text */
type Text = (field: string) => string;
/** `at`: when a signed message was made (wall clock); it counts once. */
type PurgeRequest = Readonly<{ projects: readonly string[]; at?: number }>;

interface Format {
  /** `login`: HTTP Basic of the hook's user; `signature`: hex HMAC-SHA256 of the body. */
  readonly proof: 'login' | 'signature';
  /** @returns undefined where answers stay the same. @throws GatewayError */
  readonly read: (text: Text, projects: HookConfig['projects']) => PurgeRequest | undefined;
}

const FORMATS: Readonly<Record<HookConfig['format'], Format>> = {
  // https://kylin.apache.org: what kylin.job.finished-notifier-url is sent.
  // A job that failed may have changed something before.
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

/** Types of jobs (JobTypeEnum) that change no answers. An unknown type may change data. */
const KYLIN_UNCHANGING = new Set('INDEX_BUILD TABLE_SAMPLING ASYNC_QUERY'.split(' '));
const DBT_ENDS = new Set('job.run.completed job.run.errored'.split(' '));

const refused = (why: string) => new GatewayError('forbidden', `Nothing was done: ${why}.`);
const unreadable = (why: string) => new GatewayError('bad-request', `Nothing was done: ${why}.`);

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
