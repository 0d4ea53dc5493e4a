import type { SessionName } from './sessions.ts';

/** One text for each name: JSON keeps the two parts apart, whatever they hold. */
export function sessionName({ place, id }: SessionName): string {
  return JSON.stringify([place, id]);
}
