import type { RequestHandler } from 'express';
import { hash } from 'node:crypto';
import { canonicalAuthorization } from '../../auth/authenticator.ts';
import { createBuckets } from '../../auth/login-throttle.ts';
import type { PurgeOrder } from '../../cache/purge/purge.ts';
import { pause } from '../../common/clock.ts';
import { GatewayError } from '../../common/errors.ts';
import type { HookConfig } from './config.ts';
import type { createOnce } from '../../freshness/fleet.ts';
import { sendJson } from '../../http/answers.ts';
import { purgeFailure } from '../../http/clear-cache.ts';
import { nameRequest } from '../../http/request-head.ts';
import type { Core, RuntimeCore } from '../feature.ts';
import { FORMATS, readFields, refused } from './formats.ts';
import { createProvenBody, type HookCall } from './proof.ts';

/** Longest time from a head to its answer: Kylin gives up after 3 s, dbt after 10 s. */
const ANSWERED_WITHIN_MS = 2_500;
/** Calls of a hook that purge: so many at once, and one more in so many milliseconds. */
const CALLS = { burst: 60, refill: 1_000 };
/** Greatest difference between the time of a signed message and that of this gateway. */
const CLOCKS_DIFFER_MS = 600_000;
/** A taken message is remembered so long: its time may be ahead first, and behind then. */
export const MESSAGE_LIFE_MS = 2 * CLOCKS_DIFFER_MS;

const INTERNAL = { status: 500, message: 'the gateway failed; its log tells more under the id' };

type HookParts = Pick<Core, 'purge' | 'clock' | 'emit'> &
  Pick<RuntimeCore, 'login' | 'askLeave' | 'addressOf' | 'during' | 'newId'> & {
    readonly hooks: ReadonlyMap<string, HookConfig>;
    /** Messages that were taken, for {@link MESSAGE_LIFE_MS}. */
    readonly taken: ReturnType<typeof createOnce>;
  };

/**
 * `POST /hooks/NAME`: a job of an engine, or what loads its data, tells that data was loaded. Serves
 * what is below /hooks; names that are not configured are left to what follows.
 */
export function createHookRoute(parts: HookParts): RequestHandler {
  const { hooks, newId, emit } = parts;
  const provenBody = createProvenBody(parts);
  const bucketOf = createBuckets(CALLS, parts);
  return async (request, response, next) => {
    const name = /^\/([\w-]{1,64})\/?$/.exec(request.path)?.[1] ?? '';
    const hook = hooks.get(name);
    if (hook === undefined) return next();
    const id = nameRequest(request, response, newId);
    const told = { type: 'hook-called', id, hook: name } as const;
    try {
      const call = { name, hook, request, id };
      const { result, projects } = await answerOf(call, provenBody, bucketOf, parts);
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

async function answerOf(
  call: HookCall,
  provenBody: ReturnType<typeof createProvenBody>,
  bucketOf: ReturnType<typeof createBuckets>,
  options: HookParts,
) {
  const { name, hook, request, id } = call;
  const { clock } = options;
  const began = clock.now();
  const headers = { allow: 'POST' };
  if (request.method !== 'POST')
    throw new GatewayError('method-not-allowed', 'Allowed here: POST.', { headers });
  const body = await provenBody(call);
  const order = FORMATS[hook.format].read(readFields(body), hook.projects);
  if (order === undefined) return { result: 'ignored' as const, projects: [] };
  const { projects, at } = order;
  const undo = at === undefined ? async () => {} : await takeOnce(name, body, at, options);
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
  const purged = purgeAll(projects, by, options).catch(async (error: unknown) => {
    await undo();
    throw error;
  });
  const left = Math.max(0, ANSWERED_WITHIN_MS - (clock.now() - began));
  const late = pause(clock, left).then(() => 'accepted' as const);
  return { result: await Promise.race([options.during(purged), late]), projects };
}

/** Takes a signed message, which may come once. @returns gives it back */
async function takeOnce(name: string, body: Buffer, at: number, { clock, taken }: HookParts) {
  if (Math.abs(clock.wall() - at) > CLOCKS_DIFFER_MS) {
    throw refused('the time of the message is more than ten minutes from that of the gateway');
  }
  const message = `hook:${name}:${hash('sha256', body, 'base64url')}`;
  if (!(await taken.begin(message))) throw refused('the message was taken already');
  return () => taken.undo(message);
}

/** @throws GatewayError `engine-not-cleared` */
async function purgeAll(projects: readonly string[], by: PurgeOrder, { purge }: HookParts) {
  const ends = await Promise.all(projects.map((project) => purge({ project }, by)));
  for (const end of ends) {
    if ('receipt' in end && !end.ok) throw purgeFailure(end.receipt.scope, end);
  }
  return ends.every(({ ok }) => ok) ? ('cleared' as const) : ('accepted' as const);
}
