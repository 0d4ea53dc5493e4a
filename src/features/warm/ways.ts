import type { Candidates, KeptRequest, Way } from './candidates.ts';
import { ASCII_BASED, gapsIn, startOf, textIn } from '../../line/gaps.ts';
import type { SessionRecord } from '../../freshness/freshness-store.ts';
import type { Seen, SeenRequest } from '../../line/ports.ts';

/** Shorter values are sizes and limits; an engine may refuse zeros there (characters). */
const ID = 32;
/** A password in a text of its own, such as that of a data source. */
const SECRET = /(?:password|pwd)\s*=/i;

/**
 * Makes the request to be kept: without its session id and ids in ignored properties. Undefined
 * where it is not certain what of it is an id, or it may hold a secret.
 */
function kept({ asked, body, destination }: SeenRequest) {
  const { forwarded, encoding, session, sessionIds } = asked;
  if (forwarded === undefined || !ASCII_BASED.has(encoding?.name ?? '')) return undefined;
  const gaps = gapsIn(body);
  if (gaps === undefined || sessionIds === 'unknown') return undefined;
  const other = Buffer.from(body);
  for (const gap of gaps.ids) {
    if (gap.length < ID) continue;
    const zeros = textIn(body, gap).replaceAll(/[0-9a-f]/gi, '0');
    other.write(zeros, startOf(gap, body.length), 'latin1');
  }
  const id = session.kind === 'in' ? session.id : undefined;
  const found = gaps.session && textIn(body, gaps.session);
  if ((found ?? id) !== id || sessionIds.some((one) => one !== id)) return undefined;
  const [at, length] = gaps.session ? [gaps.session.at, gaps.session.length] : [null, 0];
  const text = other.toString('latin1');
  const { project = null, query } = destination.addressee;
  const { 'x-as-sessionid': byHeader, traceparent: _, ...given } = forwarded;
  const cut = at === null ? text : text.slice(0, at) + text.slice(at + length);
  if ([cut, ...query].some((one) => SECRET.test(one))) return undefined;
  const hasNoPlace = at === null && byHeader === undefined;
  if (id !== undefined && (hasNoPlace || cut.includes(id))) return undefined;
  const sent = Object.entries(given).filter(([, value]) => value !== undefined);
  const headers = Object.fromEntries(sent) as KeptRequest['headers'];
  return {
    request: { project, query, headers, body: cut },
    session: id === undefined ? null : { at, byHeader: byHeader !== undefined },
  };
}

/** Makes a way of a request. Undefined where it may not be kept. @param part of the key */
function keptWay(request: SeenRequest, record: SessionRecord | undefined, part: string) {
  const found = kept(request);
  if (found === undefined || (found.session === null) !== (record === undefined)) return undefined;
  const { profile = '', catalog = null } = record ?? {};
  const session = found.session && { ...found.session, profile, catalog };
  return { ...found.request, session, part } satisfies Way;
}

/** Makes the way to ask at once as was asked: outside of sessions with all of its ids. */
export function wayAgain(request: SeenRequest, record: SessionRecord | undefined) {
  if (record !== undefined) return keptWay(request, record, '');
  const { project = null, query } = request.destination.addressee;
  const headers = { ...request.asked.forwarded } as KeptRequest['headers'];
  const body = request.body.toString('latin1');
  return { project, query, headers, body, session: null, part: '' } satisfies Way;
}

type AskCandidates = Pick<Candidates, 'noteWay' | 'noteBeginning'>;
export const createSeen = (candidates: AskCandidates): Omit<Seen, 'ending'> => ({
  query(request, user, parts, session) {
    const part = parts.session ?? '';
    candidates.noteWay(parts.asked.digest, part, user, () => {
      const way = keptWay(request, session?.record, part);
      if (way === undefined) return undefined;
      const { subject, named } = request.asked;
      const { catalog = null } = session?.record ?? {};
      const all = [...(named?.catalogs.catalogs ?? []), ...[catalog ?? []].flat()];
      const catalogs = [...new Set(all)];
      return { subject, project: way.project ?? '', catalogs, way };
    });
  },
  beginning(request, profile) {
    candidates.noteBeginning(profile, () => kept(request)?.request);
  },
});
