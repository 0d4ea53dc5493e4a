import type { Asked } from '../xmla-line/asked.ts';

/**
 * What was understood of a request, in the session that another request of the same proven template names: the id
 * stands in both in the same places, and nowhere else (`proven-template.ts`).
 */
export function inSession(asked: Asked, id: string | undefined): Asked {
  const { request, session, sessionIds, reading } = asked;
  const isPlain = request !== undefined && reading.kind === 'understood';
  if (session.kind !== 'in' || id === undefined || !isPlain) return asked;
  const { id: before } = session;
  if (id === before) return asked;
  const renamed = (ids: readonly string[]) => ids.map((one) => (one === before ? id : one));
  const inOther = {
    ...request,
    session: { ...session, id },
    sessionIds: renamed(request.sessionIds),
  };
  return {
    ...asked,
    reading: { ...reading, request: inOther },
    request: inOther,
    session: { ...session, id },
    sessionIds: sessionIds === 'unknown' ? sessionIds : renamed(sessionIds),
  };
}
