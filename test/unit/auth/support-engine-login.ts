import { createEngineAuthenticator } from '../../../src/auth/engine-login.ts';
import type { GatewayEvent } from '../../../src/common/events.ts';
import { createTestRandom, HERE, MINUTE, out, told } from './support-file-authenticator.ts';
import { basic, createTestClock } from './support.ts';

type Answer = 'accepted' | 'rejected' | 'unavailable';

/** Nobody has a name that begins so. */
export const STRANGER = 'mdx-gateway-test-';
export const UNAVAILABLE = out('unavailable');

/** An engine that knows alice and bob, and what a test makes of it. */
export function setUpEngine({ verifiedFor = MINUTE, believedFor = 0 } = {}) {
  const clock = createTestClock();
  const users = new Map([
    ['alice', 'fast cars'],
    ['bob', 'slow cars'],
  ]);
  const tried: { name: string; password: string; header: string }[] = [];
  const events: GatewayEvent[] = [];
  let gate: Promise<void> | undefined;
  let override: ((name: string) => Answer | Error | undefined) | undefined;
  let lastSignal: AbortSignal | undefined;
  const own = createEngineAuthenticator({
    verifiedFor,
    believedFor,
    clock,
    random: createTestRandom(),
    emit: (event) => events.push(event),
    async tryLogin(header, signal) {
      const [name = '', password = ''] = Buffer.from(header.slice(6), 'base64')
        .toString()
        .split(/:(.*)/s);
      lastSignal = signal;
      if (!name.startsWith(STRANGER)) {
        tried.push({ name, password, header });
        await gate;
      }
      const answer = override?.(name) ?? (users.get(name) === password ? 'accepted' : 'rejected');
      if (answer instanceof Error) throw answer;
      return answer;
    },
  });
  const authenticator = told(own);
  return {
    authenticator,
    clock,
    users,
    tried,
    events,
    signal: () => lastSignal,
    login: (name: string, password: string, address = HERE) =>
      authenticator.authenticate(basic(name, password), { id: 'id', address: address }),
    holdAt: (next: { readonly passed: Promise<void> } | undefined) => {
      gate = next?.passed;
    },
    engineSays: (next: typeof override) => {
      override = next;
    },
  };
}
