export interface Answer {
  /** 0 where no JSON came: from no gateway, or from what stands in front of it. */
  readonly status: number;
  readonly json: unknown;
}

/** Longest wait for what only reads: a process that hangs must not keep the page from another. */
const READ_WITHIN = 10_000;

/** Never rejects. @param target no relative address: the base may hold a login */
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

export const problemOf = ({ status, json }: Answer): string =>
  (json as { message?: string } | null)?.message || `The gateway answered with status ${status}.`;
