import type { Login } from '../auth/authenticator.ts';
import { createEngineAuthenticator } from '../auth/engine-login.ts';
import { type AskLeave, createLoginThrottle, leaveOf } from '../auth/login-throttle.ts';
import { createFileAuthenticator } from '../auth/users-file.ts';
import type { Config } from '../config/config.ts';
import type { Away } from '../engine/away.ts';
import { createLoginTrial } from '../engine/own-questions.ts';
import type { clientAddressReader } from '../http/request-head.ts';
import { loginsAtPrimary } from '../workers/shared.ts';
import type { Parts } from './parts.ts';

type Kept = Pick<Parameters<typeof createFileAuthenticator>[0], 'verified' | 'before'>;
/** Logins that were found right, and what checked them. */
export interface KeptLogins {
  readonly asks: string;
  readonly take: () => Kept;
}

/** Makes the logins of a configuration. Earlier logins stay where the same checks them. */
export async function createLogins(
  config: Config,
  parts: Parts & { readonly away?: Away },
  addressOf: ReturnType<typeof clientAddressReader>,
  before: KeptLogins | undefined,
) {
  const ownLeave = leaveOf(createLoginThrottle(parts));
  const askLeave = parts.primary ? loginsAtPrimary(parts.primary, ownLeave) : ownLeave;
  const asks = JSON.stringify(config.auth.provider === 'file' ? config.auth.users : config.engine);
  const kept = before?.asks === asks ? before.take() : {};
  const authenticator = await createAuthenticator(config, parts, askLeave, kept);
  const login: Login = (request, id) => {
    const caller = { id, address: addressOf(request), connection: request.socket };
    return authenticator.authenticate(request.headers.authorization, caller);
  };
  return { authenticator, login, askLeave, kept: { asks, take: authenticator.kept } };
}

async function createAuthenticator(
  { auth, engine }: Config,
  parts: Parts & { readonly away?: Away },
  askLeave: AskLeave,
  kept: Kept,
) {
  const { emit, randomBytes: random } = parts;
  const { verified_for: verifiedFor, believed_for: believedFor } = auth;
  const common = { ...parts, ...kept, random, askLeave, verifiedFor };
  if (auth.provider === 'file') return createFileAuthenticator({ file: auth.users, ...common });
  const trial = createLoginTrial(engine, parts.clock, emit, parts.away);
  const authenticator = createEngineAuthenticator({ ...common, tryLogin: trial.try, believedFor });
  return { ...authenticator, close: () => authenticator.close().finally(trial.close) };
}
