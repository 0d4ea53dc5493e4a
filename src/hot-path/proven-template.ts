import { isDeepStrictEqual } from 'node:util';
import type { Asked } from '../xmla-line/asked.ts';
import { IGNORED_PROPERTIES } from '../xmla/request/property-policy.ts';
import type { Property } from '../xmla/request/xmla-request.ts';
import { likelyLayout, templateOf, withOtherValues, type Layout, type Template } from './gaps.ts';

/** In these every byte of ASCII is its letter, wherever it stands. */
const ASCII_BASED: ReadonlySet<string> = new Set(['utf-8', 'us-ascii', 'iso-8859-1']);

/**
 * The template of a body, when it is proven that whatever stands in its gaps does not change what is asked, but for the
 * id of the session: then every body of that template asks the same in the session that stands in its gap.
 *
 * The proof is a second full reading, of the same body with other values in all gaps. XML does not tell the letters apart
 * that may stand in a gap (`gaps.ts`), nor does anything that reads requests, so what holds for one pair of values holds
 * for all of that length; numbers have one digit more in the other reading, and hold few. What only looks like a gap (in a statement, a comment, an attribute of another name) shows in
 * the second reading.
 * @param asked what was understood of the body
 * @param read the full reading, under the same head
 */
export async function provenTemplate(
  body: Buffer,
  asked: Asked,
  read: (body: Buffer) => Promise<Asked>,
): Promise<{ readonly layout: Layout; readonly template: Template } | undefined> {
  const { reading } = asked;
  if (reading.kind !== 'understood' || !ASCII_BASED.has(reading.encoding)) return undefined;
  const layout = likelyLayout(body.toString('latin1'));
  if (layout === undefined) return undefined;
  const template = templateOf(body, layout);
  if (template === undefined || template.session !== sessionIdOf(asked)) return undefined;
  const other = withOtherValues(body, layout);
  const otherAsked = await read(other);
  if (templateOf(other, layout)?.session !== sessionIdOf(otherAsked)) return undefined;
  return asksTheSame(asked, otherAsked) ? { layout, template } : undefined;
}

function sessionIdOf({ session }: Asked): string | undefined {
  return session.kind === 'in' ? session.id : undefined;
}

/**
 * Whether two requests ask the same but for the id of their session and the values of ignored properties: nothing else
 * of what was understood of them differs.
 */
export function asksTheSame(one: Asked, other: Asked): boolean {
  return isDeepStrictEqual(withoutIds(one), withoutIds(other));
}

/** The session a request names stands in it once: in two places it could mean two things. */
function withoutIds(asked: Asked): unknown {
  const { request, session, sessionIds, reading, ...rest } = asked;
  const id = session.kind === 'in' ? session.id : undefined;
  const blank = (found: Asked['sessionIds']) =>
    found === 'unknown' ? found : found.map((one) => (one === id ? '' : one));
  return {
    ...rest,
    reading: { ...reading, request: undefined },
    session: { ...session, id: '' },
    sessionIds: blank(sessionIds),
    request: request && {
      ...request,
      session: { ...request.session, id: '' },
      sessionIds: blank(request.sessionIds),
      properties: request.properties.map(withoutIgnoredValue),
    },
  };
}

function withoutIgnoredValue({ name, value }: Property): Property {
  return { name, value: IGNORED_PROPERTIES.has(name) ? '' : value };
}
