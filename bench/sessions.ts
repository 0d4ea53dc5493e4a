import { askOnce } from './contest.ts';
import type { Subject } from './house.ts';
import { template } from './questions.ts';

const SHOWN = /<Session [^>]*SessionId="([^"]+)"/;

/** The session that an answer shows; undefined without one. */
export function shownSession(body: Buffer): string | undefined {
  return SHOWN.exec(body.toString('latin1', 0, 4_096))?.[1];
}

/** Begins a session of the engine, through whatever stands before it. @throws Error when none was begun */
export async function beginSession(subject: Subject): Promise<string> {
  const body = template({ size: 0, kind: 'empty', session: 'begin', freshIds: true });
  const { body: answer } = await askOnce(subject, body);
  const id = shownSession(answer);
  if (id === undefined)
    throw new Error(`${subject.name}: no session was begun: ${answer.toString()}`);
  return id;
}
