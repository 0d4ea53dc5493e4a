import { hash } from 'bcrypt';

/** Everybody's, so that one hash serves all. */
const PASSWORD = 'secret-12';
/** What `hash-password` takes. */
const COST = 10;

export const ANALYST = 'ANALYST';

/** Two hundred users, and a team of twenty of them. */
export const PEOPLE: readonly string[] = Array.from(
  { length: 200 },
  (_, at) => `ANALYST${String(at + 1).padStart(3, '0')}`,
);
export const TEAM = PEOPLE.slice(0, 20);

let hashed: Promise<string> | undefined;

/** The lines of a users file as `htpasswd -B` writes them. */
export async function usersFile(): Promise<string> {
  const text = (await (hashed ??= hash(PASSWORD, COST))).replace(/^\$2b\$/, '$2y$');
  return [ANALYST, ...PEOPLE].map((name) => `${name}:${text}\n`).join('');
}

/** The header of a user. */
export function basic(user: string): { readonly Authorization: string } {
  const text = Buffer.from(`${user}:${PASSWORD}`).toString('base64');
  return { Authorization: `Basic ${text}` };
}
