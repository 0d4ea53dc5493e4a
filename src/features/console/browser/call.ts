/** Calls of the gateway that this page came from. */

export interface Answer {
  /** 0 where no JSON came: from no gateway, or from what stands in front of it. */
  readonly status: number;
  readonly json: unknown;
}

/** For what only reads (ms): a process that hangs must not keep the page from asking another. */
const READ_WITHIN = 10_000;

/**
 * Never rejects.
 * @param target path and query; an address that holds a login cannot be the base of relative ones
 */
export async function call(target: string, init: RequestInit = {}): Promise<Answer> {
  try {
    const headers = { accept: 'application/json', ...init.headers };
    const signal = init.method === undefined ? AbortSignal.timeout(READ_WITHIN) : null;
    const answer = await fetch(new URL(target, location.origin), { ...init, headers, signal });
    return { json: (await answer.json()) as unknown, status: answer.status };
  } catch {
    return { status: 0, json: { message: 'The gateway did not answer.' } };
  }
}

/** What an answer that is no success says. */
export const problemOf = ({ status, json }: Answer): string =>
  (json as { message?: string } | null)?.message || `The gateway answered with status ${status}.`;
