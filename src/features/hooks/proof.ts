import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { throttled } from '../../auth/authenticator.ts';
import { GatewayError } from '../../common/errors.ts';
import type { HookConfig } from './config.ts';
import { readBody } from '../../http/read-body.ts';
import { forgedAct } from '../../http/request-head.ts';
import type { RuntimeCore } from '../feature.ts';
import { type Format, FORMATS, refused } from './formats.ts';

const LARGEST_BODY = 65_536;
/** Bodies read at one time of callers with a login, and as many of callers who sign. */
const BODIES = 64;
/** A pace above every body: one that has not come whole in ten seconds is broken off. */
const READING = { limitName: 'the most of a hook', pace: LARGEST_BODY + 1 };

/** A call of a hook that is configured. */
export interface HookCall {
  readonly name: string;
  readonly hook: HookConfig;
  readonly request: IncomingMessage;
  readonly id: string;
}

/** Makes what reads the body of a call, once its sender has proved to be the hook's. */
export function createProvenBody({
  login,
  askLeave,
  addressOf,
}: Pick<RuntimeCore, 'login' | 'askLeave' | 'addressOf'>) {
  const read = createBoundedReading();

  async function byLogin({ hook, request, id }: HookCall): Promise<Buffer> {
    const principal = await login(request, id);
    if (principal.name === hook.user) return read(request, 'login');
    throw refused(`${principal.name} is not the user of this hook`);
  }

  async function bySignature({ name, hook, request }: HookCall): Promise<Buffer> {
    const { authorization = '' } = request.headers;
    if (!/^[\da-f]{64}$/i.test(authorization)) throw unsigned();
    // Before the body, so that no address has many of them read.
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

/** Breaks off the oldest of too many bodies: a slow sender must not keep out one that sends at once. */
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
