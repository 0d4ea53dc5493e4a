import type { Authenticator } from '../auth/authenticator.ts';
import { createEngineAuthenticator } from '../auth/engine-login.ts';
import { createFileAuthenticator } from '../auth/users-file.ts';
import { createLoginThrottle } from '../auth/login-throttle.ts';
import type { Config } from '../config/config.ts';
import { createLoginTrial } from '../engine/own-questions.ts';
import { loginsAtPrimary } from '../workers/logins.ts';
import type { Parts } from './parts.ts';

/** What checks logins, as `auth.provider` says. */
export async function createAuthenticator(
  { auth, engine }: Config,
  { clock, randomBytes, emit, primary }: Parts,
): Promise<Authenticator> {
  const common = {
    verifiedFor: auth.verified_for,
    clock,
    random: randomBytes,
    emit,
    admission: primary && loginsAtPrimary(primary, createLoginThrottle({ clock })),
  };
  if (auth.provider === 'file') return createFileAuthenticator({ file: auth.users, ...common });
  const trial = createLoginTrial(engine, clock, emit);
  const authenticator = createEngineAuthenticator({ tryLogin: trial.try, ...common });
  return {
    ...authenticator,
    async close() {
      await authenticator.close();
      trial.close();
    },
  };
}
