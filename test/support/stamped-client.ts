import { execute, type SessionSpec } from './envelopes.ts';
import { askXmla, shortStatus, type Answer, type XmlaMessage } from './http-client.ts';
import { stampOf, type Stamped } from './stamps.ts';
import { asToolkit, type Toolkit } from './toolkits.ts';

/** An answer of an engine that stamps, with or without a gateway in between. */
export interface StampedAnswer extends Stamped {
  readonly answer: Answer;
  /** In short what became of it: `hit`, `miss stored`, `bypass dirty-session` … */
  readonly status: string;
}

/** Asks as alice, or whoever is named. */
export async function askStamped(
  base: string,
  body: Buffer,
  message: XmlaMessage = {},
): Promise<StampedAnswer> {
  const answer = await askXmla(base, body, message);
  return { answer, status: shortStatus(answer), ...stampOf(answer.body) };
}

/**
 * Begins a session by an empty statement, and resolves to its id.
 * @throws Error when no session was begun
 */
export async function beginSession(
  base: string,
  message: XmlaMessage & {
    readonly properties?: Readonly<Record<string, string>>;
    readonly toolkit?: Toolkit;
  } = {},
): Promise<string> {
  const { properties = {}, toolkit, ...rest } = message;
  const plain = execute({ statement: '', properties, session: { kind: 'begin' } });
  const body = toolkit === undefined ? plain : asToolkit(plain, toolkit);
  const { session, answer } = await askStamped(base, body, rest);
  if (session === undefined) throw new Error(`no session was begun: ${answer.text}`);
  return session;
}

/** That a request runs in a session. */
export const inSession = (id: string): SessionSpec => ({ kind: 'in', id });
