import type { Authenticator } from '../auth/authenticator.ts';
import { createEngineAuthenticator, type EngineLoginEvent } from '../auth/engine-login.ts';
import { createFileAuthenticator, type AuthEvent } from '../auth/file-authenticator.ts';
import { createLoginThrottle } from '../auth/login-throttle.ts';
import type { Config } from '../config/config.ts';
import { createLoginTrial } from '../engine/login-trial.ts';
import type { Emit } from '../events.ts';
import { loginsAtPrimary } from '../workers/worker-logins.ts';
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
    onEvent: reportAuth(emit),
    admission: primary && loginsAtPrimary(primary, createLoginThrottle({ clock })),
  };
  if (auth.provider === 'file') return createFileAuthenticator({ file: auth.users, ...common });
  const trial = createLoginTrial({ config: engine, emit });
  const authenticator = createEngineAuthenticator({ tryLogin: trial.try, ...common });
  return {
    ...authenticator,
    async close() {
      await authenticator.close();
      trial.close();
    },
  };
}

function reportAuth(emit: Emit): (event: AuthEvent | EngineLoginEvent) => void {
  return (event) => {
    switch (event.type) {
      case 'users-loaded':
        emit({ type: 'users-loaded', count: event.count });
        for (const message of event.warnings) emit({ type: 'warning', message });
        return;
      case 'users-kept':
        return emit({ type: 'warning', message: `the users of before stay: ${event.problem}` });
      case 'login-refused':
        return emit(event);
      case 'comparison-failed':
        return emit({
          type: 'warning',
          message: 'a login could not be checked',
          error: event.error,
        });
      case 'logins-unchecked':
        return emit({
          type: 'warning',
          message:
            'nobody is let in: the engine accepts every login, so that auth.provider: engine proves nothing',
        });
    }
  };
}
