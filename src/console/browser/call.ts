/** Calls of the gateway that this page came from. */

export interface Answer {
  readonly status: number;
  readonly json: unknown;
}

/**
 * Never rejects: what is no JSON has the status 0 where nothing came.
 * @param target path and query; an address that holds a login cannot be the base of relative ones
 */
export async function call(target: string, init: RequestInit = {}): Promise<Answer> {
  try {
    const headers = { accept: 'application/json', ...init.headers };
    const answer = await fetch(new URL(target, location.origin), { ...init, headers });
    const text = await answer.text();
    return { status: answer.status, json: readJson(text) };
  } catch {
    return { status: 0, json: { message: 'The gateway did not answer.' } };
  }
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return { message: text.slice(0, 500) };
  }
}

/** What an answer that is no success says. */
export const problemOf = ({ status, json }: Answer): string =>
  (json as { message?: string } | null)?.message ?? `The gateway answered with status ${status}.`;
