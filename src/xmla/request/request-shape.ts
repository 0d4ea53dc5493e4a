import { isElement } from '../../xml/read-tree.ts';
import type { XmlElement } from '../../xml/read-tree.ts';
import { foldName } from '../fold-name.ts';
import { SOAP, XMLA, XSD, XSI } from '../namespaces.ts';

/**
 * The first thing in an element that the known shape does not name (an element, an attribute, text where none belongs,
 * a second occurrence), in words for the log; undefined when there is none.
 */
type Shape = (element: XmlElement) => string | undefined;

/** An attribute that the shape names; without `value` any value will do. */
interface KnownAttribute {
  readonly uri: string;
  readonly local: string;
  readonly value?: string;
}

/** The namespaces of Analysis Services ([MS-SSAS] §2.2.3), in which header blocks stand. */
const ANALYSIS_SERVICES = 'http://schemas.microsoft.com/analysisservices/';
/** What the client can do and expects. They may shape answers, so that they are in the key. */
const KEYED_BLOCKS: ReadonlySet<string> = new Set([
  'Version',
  'NamespaceCompatibility',
  'ProtocolCapabilities',
]);

/** Clients put it on the envelope and on the method; engines read it as no more than a hint. */
const ENCODING_STYLE: readonly KnownAttribute[] = [
  { uri: SOAP, local: 'encodingStyle', value: 'http://schemas.xmlsoap.org/soap/encoding/' },
];
/** ADOMD.NET writes `mustUnderstand` without a prefix, SOAP 1.1 §4.2.3 with one. */
const BEGIN_ATTRIBUTES: readonly KnownAttribute[] = [
  { uri: SOAP, local: 'mustUnderstand' },
  { uri: '', local: 'mustUnderstand' },
  { uri: SOAP, local: 'actor' },
];
const SESSION_ATTRIBUTES: readonly KnownAttribute[] = [
  ...BEGIN_ATTRIBUTES,
  { uri: '', local: 'SessionId' },
];

const MAX_NAME = 64;

/** A name as the log may show it: bounded, because the client chose it. */
export function shown(name: string): string {
  return name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name;
}

/** Whether a header block begins, names or ends a session (XMLA 1.1, "Support for Statefulness"). */
export function isSessionBlock({ uri, local }: XmlElement): boolean {
  return uri === XMLA && ['BeginSession', 'Session', 'EndSession'].includes(local);
}

/** Whether a header block is in the key. */
export function isKeyedBlock({ uri, local }: XmlElement): boolean {
  return uri.startsWith(ANALYSIS_SERVICES) && KEYED_BLOCKS.has(local);
}

/** The first oddity that one of several shapes finds. */
function all(...shapes: readonly Shape[]): Shape {
  return (element) => {
    for (const shape of shapes) {
      const oddity = shape(element);
      if (oddity !== undefined) return oddity;
    }
    return undefined;
  };
}

function attributes(known: readonly KnownAttribute[]): Shape {
  return (element) => {
    const other = element.attributes.find(
      ({ uri, local, value }) =>
        !known.some(
          (one) =>
            one.uri === uri &&
            one.local === local &&
            (one.value === undefined || one.value === value),
        ),
    );
    return other && `attribute ${shown(other.local)} of ${shown(element.local)}`;
  };
}

const NO_ATTRIBUTES = attributes([]);

/** White space may stand between elements, and no other text. */
const blank: Shape = (element) =>
  element.hasCData || /[^ \t\r\n]/.test(element.text)
    ? `text in ${shown(element.local)}`
    : undefined;

/** Children of any number, each of the shape that its name says; undefined for one that is not named. */
function children(shapeOf: (child: XmlElement) => Shape | undefined): Shape {
  return (element) => {
    for (const child of element.children) {
      const shape = shapeOf(child);
      if (shape === undefined) return `element ${shown(child.local)} in ${shown(element.local)}`;
      const oddity = shape(child);
      if (oddity !== undefined) return oddity;
    }
    return undefined;
  };
}

const NO_CHILDREN = children(() => undefined);
const TEXT = all(NO_ATTRIBUTES, NO_CHILDREN);

/** Children of one namespace in this order, each once at most; those with `?` may be missing. */
function sequence(namespace: string, shapes: Readonly<Record<string, Shape>>): Shape {
  const places = new Map(
    Object.entries(shapes).map(([name, shape]) => [name.replace('?', ''), shape]),
  );
  const names = [...places.keys()];
  const required = names.filter((name) => name in shapes);
  const inOrder: Shape = (element) => {
    let reached = -1;
    for (const { local } of element.children) {
      const place = names.indexOf(local);
      if (place <= reached) return `${shown(local)} out of its place in ${shown(element.local)}`;
      reached = place;
    }
    const missing = required.find((name) => !element.children.some(({ local }) => local === name));
    return missing && `no ${missing} in ${shown(element.local)}`;
  };
  const each = children(({ uri, local }) => (uri === namespace ? places.get(local) : undefined));
  return all(blank, each, inOrder);
}

/** A list of elements in the namespace of XMLA. */
function list(shape: Shape): Shape {
  const each = children(({ uri }) => (uri === XMLA ? shape : undefined));
  return all(NO_ATTRIBUTES, blank, each);
}

/** Any content: its namespaces are others, and what is in it is not looked at. */
const ANYTHING: Shape = () => undefined;

const PROPERTIES = all(NO_ATTRIBUTES, sequence(XMLA, { 'PropertyList?': list(TEXT) }));

/**
 * White space beside `Value` elements is odd, unlike elsewhere: an engine that does not know this form reads the whole
 * text of the restriction.
 */
const RESTRICTION: Shape = (element) => {
  if (element.children.length === 0) return TEXT(element);
  if (element.text !== '' || element.hasCData)
    return `text beside elements in ${shown(element.local)}`;
  return all(
    NO_ATTRIBUTES,
    children((child) => (isElement(child, XMLA, 'Value') ? TEXT : undefined)),
  )(element);
};

/** The text of `xsi:type` says one thing only while its prefix means XML Schema. */
const VALUE = all(
  attributes([{ uri: XSI, local: 'type' }]),
  NO_CHILDREN,
  ({ attributes, typeNamespace }) =>
    attributes.length > 0 && typeNamespace !== XSD ? 'xsi:type of another namespace' : undefined,
);

/** Commands that are no Statement are not looked into. `Scope="Session"` makes an object of the session alone. */
const COMMAND = all(
  NO_ATTRIBUTES,
  blank,
  children(({ uri, local }) => {
    if (local === 'Statement') return uri === XMLA ? TEXT : undefined;
    return (command) =>
      command.attributes.some(({ local }) => foldName(local) === 'scope')
        ? `Scope of ${shown(command.local)}`
        : undefined;
  }),
);

/** XMLA 1.1, "Discover" and "Execute": the order of the schema, which all known clients keep. */
const DISCOVER = sequence(XMLA, {
  RequestType: TEXT,
  Restrictions: all(NO_ATTRIBUTES, sequence(XMLA, { 'RestrictionList?': list(RESTRICTION) })),
  Properties: PROPERTIES,
});
const EXECUTE = sequence(XMLA, {
  Command: COMMAND,
  Properties: PROPERTIES,
  'Parameters?': list((parameter) =>
    parameter.local === 'Parameter'
      ? all(NO_ATTRIBUTES, sequence(XMLA, { Name: TEXT, Value: VALUE }))(parameter)
      : `element ${shown(parameter.local)} in Parameters`,
  ),
});

const named = (known: readonly KnownAttribute[]) => all(attributes(known), NO_CHILDREN, blank);
const SESSION: Shape = all(named(SESSION_ATTRIBUTES), (block) =>
  block.attributes.some(
    ({ uri, local, value }) => uri === '' && local === 'SessionId' && value !== '',
  )
    ? undefined
    : `no SessionId in ${block.local}`,
);

/** A block holds text, or a list of `Capability`. */
const KEYED: Shape = (block) =>
  block.children.length === 0
    ? undefined
    : all(
        blank,
        children((child) => (isElement(child, block.uri, 'Capability') ? TEXT : undefined)),
      )(block);

/** What is not known here can change the answer and stands in no key. */
function blockShape(block: XmlElement): Shape | undefined {
  if (isSessionBlock(block)) {
    return block.local === 'BeginSession' ? named(BEGIN_ATTRIBUTES) : SESSION;
  }
  if (block.local === 'Security' || block.local === 'BeginGetSessionToken') return ANYTHING;
  return isKeyedBlock(block) ? KEYED : undefined;
}

const HEADER = all(attributes(ENCODING_STYLE), blank, children(blockShape), (header) =>
  header.children.filter(isSessionBlock).length > 1 ? 'a second session element' : undefined,
);

const METHODS: ReadonlyMap<string, Shape> = new Map([
  ['Discover', DISCOVER],
  ['Execute', EXECUTE],
]);
const BODY = all(
  attributes(ENCODING_STYLE),
  blank,
  children(({ local }) => all(attributes(ENCODING_STYLE), METHODS.get(local) ?? ANYTHING)),
);

/** An envelope holds one Header at most, then one Body, and nothing else (SOAP 1.1 §4, narrowed). */
export const oddityOfEnvelope: Shape = all(
  attributes(ENCODING_STYLE),
  sequence(SOAP, { 'Header?': HEADER, Body: BODY }),
);
