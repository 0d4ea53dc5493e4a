import { XmlDocument, XmlElement } from 'libxml2-wasm';
import type { SeenRequest } from './stub-engine.ts';

/**
 * What an engine was sent, but for what two requests that share an entry may differ in: the values of properties of the
 * ignore-list, unless it is asked to tell them, the id of the session, and how XML and MDX that say the same are spelt (prefixes, order of
 * attributes and of properties, CDATA, carriage returns and outer white space of a statement).
 */
interface Forwarded {
  readonly target: string;
  /** Each `name: value` in its order. */
  readonly headers: readonly string[];
  readonly encoding: string;
  /** The envelope as nested lists. */
  readonly body: unknown;
}

/** Whose values are new for every request or process of a client, and without effect on the answer (protocol: "Properties"). */
export const IGNORED: readonly string[] = (
  'DbpropMsmdActivityID DbpropMsmdRequestID DbpropMsmdCurrentActivityID ClientProcessID SspropInitWsid ' +
  'SspropInitPacketsize RequestPriority DbpropMsmdRequestMemoryLimit MemoryLockingMode ApplicationContext ' +
  'Timeout CommitTimeout ForceCommitTimeout'
).split(' ');

/** @throws when the body is no XML */
export function forwarded(seen: SeenRequest): Forwarded {
  return {
    target: `${seen.method} ${seen.url}`,
    headers: headersOf(seen.rawHeaders),
    encoding: encodingOf(seen.body),
    body: read(seen.body, (root) => picture(root)),
  };
}

/**
 * What counts of the properties, the header blocks that are no session, and headers that say nothing of the call itself: what an
 * engine may keep of a session's beginning.
 */
export function kept(seen: SeenRequest): unknown {
  const own = headersOf(seen.rawHeaders).filter((line) =>
    /^(?:accept.language|x.tenant):/.test(line),
  );
  return read(seen.body, (root) => [
    own.toSorted(),
    elements(root, '/*/*[local-name()="Header"]/*[not(contains(local-name(), "Session"))]').map(
      picture,
    ),
    elements(root, '//*[local-name()="PropertyList"]').map(picture),
  ]);
}

function headersOf(raw: readonly string[]): readonly string[] {
  const pairs: string[] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const name = (raw[at] ?? '').toLowerCase();
    if (name === 'content-length') continue;
    pairs.push(`${name}: ${name === 'x-as-sessionid' ? '*' : raw[at + 1]}`);
  }
  return pairs;
}

function encodingOf(body: Buffer): string {
  if (body[0] === 0xff && body[1] === 0xfe) return 'utf-16le';
  return body[0] === 0xfe && body[1] === 0xff ? 'utf-16be' : 'utf-8';
}

function read<T>(body: Buffer, how: (root: XmlElement) => T): T {
  const document = XmlDocument.fromBuffer(body);
  try {
    return how(document.root);
  } finally {
    document.dispose();
  }
}

function elements(root: XmlElement, path: string): readonly XmlElement[] {
  return root.find(path).filter((node) => node instanceof XmlElement);
}

function picture(element: XmlElement): unknown {
  const { name, namespaceUri } = element;
  const attributes = element.attrs
    .map((one) => [one.namespaceUri, one.name, one.name === 'SessionId' ? '*' : one.value])
    .map((one) => JSON.stringify(one))
    .toSorted();
  const children = elements(element, '*');
  if (name === 'PropertyList') {
    const told = valuesAskedFor(element);
    const pictures = children.map((one) =>
      IGNORED.includes(one.name) && told?.includes(one.name) === false
        ? [one.namespaceUri, one.name, one.attrs.map(({ name, value }) => [name, value])]
        : picture(one),
    );
    return [namespaceUri, name, attributes, sorted(pictures)];
  }
  if (children.length > 0) return [namespaceUri, name, attributes, children.map(picture)];
  const text = element.content;
  const said = name === 'Statement' ? text.replaceAll('\r', '').replace(OUTER_SPACE, '') : text;
  return [namespaceUri, name, attributes, said];
}

/** The properties whose values the answer tells, in the spelling of {@link IGNORED}; undefined for all of them. */
function valuesAskedFor(list: XmlElement): readonly string[] | undefined {
  const [type] = elements(list, '//*[local-name()="RequestType"]');
  if (type?.content !== 'DISCOVER_PROPERTIES') return [];
  const names = elements(list, '//*[local-name()="RestrictionList"]/*');
  if (names.length === 0 || names.some((one) => one.name !== 'PropertyName')) return undefined;
  // An engine may read the texts of a list as one name.
  const inLists = names.flatMap((one) => elements(one, '*'));
  const texts = [...names, ...inLists].map(({ content }) => content);
  const asked = new Set(texts.map((text) => text.normalize('NFKC').trim().toLowerCase()));
  return IGNORED.filter((name) => asked.has(name.toLowerCase()));
}

/** The white space of MDX. */
const OUTER_SPACE = /^[ \t\n\f]+|[ \t\n\f]+$/g;

function sorted(pictures: readonly unknown[]): readonly unknown[] {
  const text = (one: unknown) => JSON.stringify(one);
  return pictures.toSorted((a, b) => (text(a) < text(b) ? -1 : 1));
}
