import { createHash } from 'node:crypto';
import type { EventEmitter } from 'node:events';
import { createFileAuthenticator } from '../../../src/auth/users-file.ts';
import type { AskLeave } from '../../../src/auth/login-throttle.ts';
import type { Authenticator } from '../../../src/auth/authenticator.ts';
import { type Principal, principalOf } from '../../../src/common/principal.ts';
import { GatewayError } from '../../../src/common/errors.ts';
import type { GatewayEvent } from '../../../src/common/events.ts';
import { basic, createTestClock, createTestCompare, createTestFile, HASHES } from './support.ts';

export const HERE = '192.0.2.1';
export const ELSEWHERE = '198.51.100.7';
export const ANALYST = `ANALYST:${HASHES.fastCars}`;
export const ADMIN = `ADMIN:${HASHES.kylin}`;
export const MINUTE = 60_000;

export const loggedIn = (name: string) => ({ ok: true, principal: principalOf(name) });
export const out = (reason: string, retryAfter = 0) => ({ ok: false, reason, retryAfter }) as const;
export const REJECTED = out('rejected');

const WORDS: Readonly<Record<string, string>> = {
  unauthenticated: 'rejected',
  throttled: 'throttled',
  'login-queue': 'queue',
  'client-gone': 'gone',
  'engine-unreachable': 'unavailable',
};

/** The same authenticator, whose refusals are values; what is answered at once still is. */
export function told(authenticator: Authenticator) {
  const refused = (error: unknown) => {
    if (!(error instanceof GatewayError)) throw error;
    return out(WORDS[error.reason] ?? '', Number(error.headers['retry-after'] ?? 0));
  };
  const letIn = (principal: Principal) => ({ ok: true, principal }) as const;
  return {
    ...authenticator,
    authenticate(...login: Parameters<Authenticator['authenticate']>) {
      try {
        const answer = authenticator.authenticate(...login);
        return answer instanceof Promise ? answer.then(letIn, refused) : letIn(answer);
      } catch (error) {
        return refused(error);
      }
    },
  };
}

/** Random bytes that are the same in every run and different at every call. */
export function createTestRandom() {
  let calls = 0;
  return (bytes: number): Uint8Array => {
    calls += 1;
    return createHash('shake256', { outputLength: bytes }).update(`${calls}`).digest();
  };
}

/** @param given.verifiedFor a minute unless it is given, also as undefined */
export async function setUp(
  given: {
    lines?: readonly string[];
    verifiedFor?: number | undefined;
    comparisons?: number;
    askLeave?: AskLeave;
  } = {},
) {
  const { lines = [ADMIN, ANALYST], comparisons = 2, askLeave } = given;
  const verifiedFor = 'verifiedFor' in given ? given.verifiedFor : MINUTE;
  const clock = createTestClock();
  const file = createTestFile(lines);
  const { calls, compare, holdAt } = createTestCompare();
  const events: GatewayEvent[] = [];
  const own = await createFileAuthenticator({
    file: '/etc/users',
    verifiedFor,
    clock,
    random: createTestRandom(),
    compare,
    comparisons,
    askLeave,
    read: file.read,
    pause: file.pause,
    emit: (event) => events.push(event),
  });
  const authenticator = told(own);
  const login = (name: string, password: string, address = HERE, connection?: EventEmitter) =>
    authenticator.authenticate(basic(name, password), {
      id: 'id',
      address,
      ...(connection && { connection }),
    });
  return { authenticator, login, clock, file, calls, holdAt, events };
}
