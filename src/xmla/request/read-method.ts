import {
  attributeValue,
  ENCODING_STYLE,
  isElement,
  NO_ATTRIBUTES,
  noteAttributes,
  noteText,
  readSequence,
  shown,
  textOf,
} from './element-shape.ts';
import type { KnownAttribute, Note, Place } from './element-shape.ts';
import { foldName } from '../fold-name.ts';
import { XMLA, XSD, XSI } from '../namespaces.ts';
import type {
  DiscoverRequest,
  ExecuteRequest,
  Parameter,
  Property,
  Restriction,
  XmlaRequest,
} from './xmla-request.ts';
import type { XmlElement } from '../../xml/read-tree.ts';

/** XMLA 1.1, "Discover" and "Execute": the order of the schema, which all known clients keep. */
const DISCOVER: readonly Place[] = [
  { local: 'RequestType', required: true },
  { local: 'Restrictions', required: true },
  { local: 'Properties', required: true },
];
const EXECUTE: readonly Place[] = [
  { local: 'Command', required: true },
  { local: 'Properties', required: true },
  { local: 'Parameters', required: false },
];
const RESTRICTIONS: readonly Place[] = [{ local: 'RestrictionList', required: false }];
const PROPERTIES: readonly Place[] = [{ local: 'PropertyList', required: false }];
const PARAMETER: readonly Place[] = [
  { local: 'Name', required: true },
  { local: 'Value', required: true },
];
const TYPED: readonly KnownAttribute[] = [{ uri: XSI, local: 'type' }];

/** What the Body says; the rest of a request stands elsewhere in the envelope. */
type Body<T> = Omit<T, Exclude<keyof XmlaRequest, 'method' | 'properties'>>;

/** Reads the one method element of the Body; undefined when it is neither Discover nor Execute. */
export function readMethod(
  method: XmlElement,
  note: Note,
): Body<DiscoverRequest> | Body<ExecuteRequest> | undefined {
  if (isElement(method, XMLA, 'Discover')) {
    return readDiscover(method, note);
  }
  return isElement(method, XMLA, 'Execute') ? readExecute(method, note) : undefined;
}

function readDiscover(discover: XmlElement, note: Note): Body<DiscoverRequest> {
  noteAttributes(discover, ENCODING_STYLE, note);
  const parts = readSequence(discover, XMLA, DISCOVER, note);
  const type = parts.get('RequestType');
  const list = readWrapped(parts.get('Restrictions'), RESTRICTIONS, note);
  return {
    method: 'Discover',
    requestType: type === undefined ? '' : textOf(type, NO_ATTRIBUTES, note),
    restrictions: list.map((element) => readRestriction(element, note)),
    properties: readProperties(parts.get('Properties'), note),
  };
}

function readExecute(execute: XmlElement, note: Note): Body<ExecuteRequest> {
  noteAttributes(execute, ENCODING_STYLE, note);
  const parts = readSequence(execute, XMLA, EXECUTE, note);
  const commands = parts.get('Command')?.children ?? [];
  const command = parts.get('Command');
  if (command !== undefined) {
    noteAttributes(command, NO_ATTRIBUTES, note);
    noteText(command, note);
    // `Scope="Session"` makes an object of the session alone ([MS-SSAS] Create, Alter, Delete).
    const scoped = commands.find(({ attributes }) =>
      attributes.some(({ local }) => foldName(local) === 'scope'),
    );
    if (scoped !== undefined) note(`Scope of ${shown(scoped.local)}`);
  }
  return {
    method: 'Execute',
    commands: commands.map(({ local }) => local),
    statement: readStatement(commands, note),
    parameters: readParameters(parts.get('Parameters'), note),
    properties: readProperties(parts.get('Properties'), note),
  };
}

/** Commands that are no Statement are named and not looked into: their content has other namespaces. */
function readStatement(commands: readonly XmlElement[], note: Note): string {
  const statement = commands.find(({ local }) => local === 'Statement');
  if (statement === undefined) {
    return '';
  }
  if (statement.uri !== XMLA) {
    note('Statement in another namespace');
  }
  return textOf(statement, NO_ATTRIBUTES, note);
}

/** The children of the list inside `Restrictions` or `Properties`, as far as they are in the namespace. */
function readWrapped(
  wrapper: XmlElement | undefined,
  places: readonly Place[],
  note: Note,
): readonly XmlElement[] {
  if (wrapper === undefined) {
    return [];
  }
  noteAttributes(wrapper, NO_ATTRIBUTES, note);
  const list = [...readSequence(wrapper, XMLA, places, note).values()][0];
  return list === undefined ? [] : readList(list, note);
}

function readList(list: XmlElement, note: Note): readonly XmlElement[] {
  noteAttributes(list, NO_ATTRIBUTES, note);
  noteText(list, note);
  const foreign = list.children.find(({ uri }) => uri !== XMLA);
  if (foreign !== undefined) {
    note(`${shown(foreign.local)} in another namespace in ${list.local}`);
  }
  return list.children.filter(({ uri }) => uri === XMLA);
}

function readProperties(wrapper: XmlElement | undefined, note: Note): readonly Property[] {
  return readWrapped(wrapper, PROPERTIES, note).map((element) => ({
    name: element.local,
    value: textOf(element, NO_ATTRIBUTES, note),
  }));
}

/**
 * White space beside `Value` elements is noted, unlike elsewhere: an engine that does not know this form reads
 * the whole text of the restriction.
 */
function readRestriction(element: XmlElement, note: Note): Restriction {
  if (element.children.length === 0) {
    const value = textOf(element, NO_ATTRIBUTES, note);
    return { name: element.local, form: 'plain', values: [value] };
  }
  noteAttributes(element, NO_ATTRIBUTES, note);
  if (element.text !== '' || element.hasCData) {
    note(`text beside elements in ${shown(element.local)}`);
  }
  const values = element.children.map((child) => {
    if (!isElement(child, XMLA, 'Value')) {
      note(`element ${shown(child.local)} in ${shown(element.local)}`);
    }
    return textOf(child, NO_ATTRIBUTES, note);
  });
  return { name: element.local, form: 'value', values };
}

function readParameters(list: XmlElement | undefined, note: Note): readonly Parameter[] {
  if (list === undefined) {
    return [];
  }
  return readList(list, note).flatMap((element) => {
    if (element.local !== 'Parameter') {
      note(`element ${shown(element.local)} in Parameters`);
      return [];
    }
    return [readParameter(element, note)];
  });
}

function readParameter(element: XmlElement, note: Note): Parameter {
  noteAttributes(element, NO_ATTRIBUTES, note);
  const parts = readSequence(element, XMLA, PARAMETER, note);
  const name = parts.get('Name');
  const value = parts.get('Value');
  return {
    name: name === undefined ? '' : textOf(name, NO_ATTRIBUTES, note),
    type: value === undefined ? '' : typeOf(value, note),
    value: value === undefined ? '' : textOf(value, TYPED, note),
  };
}

/** The text of `xsi:type` says one thing only while its prefix means XML Schema. */
function typeOf(value: XmlElement, note: Note): string {
  const type = attributeValue(value, XSI, 'type');
  if (type === undefined) {
    return '';
  }
  if (value.typeNamespace !== XSD) {
    note('xsi:type of another namespace than XML Schema');
  }
  return type;
}
