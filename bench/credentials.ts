import { hash } from 'bcrypt';

/** Everybody's, so that one hash serves all. */
export const PASSWORD = 'secret-12';
/** What `hash-password` takes. */
const COST = 10;

export const ANALYST = 'ANALYST';

/** Twenty users. */
export const TEAM: readonly string[] = Array.from(
  { length: 20 },
  (_, at) => `ANALYST${String(at + 1).padStart(2, '0')}`,
);

let hashed: Promise<string> | undefined;

/** The lines of a users file as `htpasswd -B` writes them, for ANALYST and the team. */
export async function usersFile(cost = COST): Promise<string> {
  const made = cost === COST ? (hashed ??= hash(PASSWORD, COST)) : hash(PASSWORD, cost);
  const text = (await made).replace(/^\$2b\$/, '$2y$');
  return [ANALYST, ...TEAM].map((name) => `${name}:${text}\n`).join('');
}

/** The header of a user. */
export function basic(user: string): { readonly Authorization: string } {
  const text = Buffer.from(`${user}:${PASSWORD}`).toString('base64');
  return { Authorization: `Basic ${text}` };
}
