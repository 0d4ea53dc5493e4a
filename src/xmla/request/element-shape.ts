import { SOAP } from '../namespaces.ts';
import type { XmlAttribute, XmlElement } from '../../xml/read-tree.ts';

/** Takes note, in words for the log, of something that the known shape does not name. */
export type Note = (what: string) => void;

/** An attribute that the shape names; without `value` any value will do. */
export interface KnownAttribute {
  readonly uri: string;
  readonly local: string;
  readonly value?: string;
}

/** Clients put it on the envelope and on the method; engines read it as no more than a hint. */
export const ENCODING_STYLE: readonly KnownAttribute[] = [
  { uri: SOAP, local: 'encodingStyle', value: 'http://schemas.xmlsoap.org/soap/encoding/' },
];

export const NO_ATTRIBUTES: readonly KnownAttribute[] = [];

const MAX_NAME = 64;

/** A name as the log may show it: bounded, because the client chose it. */
export function shown(name: string): string {
  return name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name;
}

export function isElement(element: XmlElement, uri: string, local: string): boolean {
  return element.uri === uri && element.local === local;
}

export function attributeValue(
  element: XmlElement,
  uri: string,
  local: string,
): string | undefined {
  return element.attributes.find((found) => found.uri === uri && found.local === local)?.value;
}

export function noteAttributes(
  element: XmlElement,
  known: readonly KnownAttribute[],
  note: Note,
): void {
  const stranger = element.attributes.find((found) => !known.some((one) => matches(one, found)));
  if (stranger !== undefined) {
    note(`attribute ${shown(stranger.local)} of ${shown(element.local)}`);
  }
}

/** An element that holds elements may hold white space between them, and no other text. */
export function noteText(element: XmlElement, note: Note): void {
  if (element.hasCData || /[^ \t\r\n]/.test(element.text)) {
    note(`text in ${shown(element.local)}`);
  }
}

/** The text of an element that may hold nothing else. */
export function textOf(element: XmlElement, known: readonly KnownAttribute[], note: Note): string {
  noteAttributes(element, known, note);
  const child = element.children[0];
  if (child !== undefined) {
    note(`element ${shown(child.local)} in ${shown(element.local)}`);
  }
  return element.text;
}

/** A child that a sequence names, and whether it must be there. */
export interface Place {
  readonly local: string;
  readonly required: boolean;
}

/**
 * Reads the children of an element as a sequence: each place at most once and in this order, all in the one
 * namespace. Anything else is noted. The first element of a name is the one that is returned.
 */
export function readSequence(
  parent: XmlElement,
  uri: string,
  places: readonly Place[],
  note: Note,
): ReadonlyMap<string, XmlElement> {
  noteText(parent, note);
  const found = new Map<string, XmlElement>();
  let reached = -1;
  for (const child of parent.children) {
    const place = places.findIndex((one) => isElement(child, uri, one.local));
    if (place === -1) {
      note(`element ${shown(child.local)} in ${shown(parent.local)}`);
    } else if (found.has(child.local)) {
      note(`a second ${child.local} in ${shown(parent.local)}`);
    } else {
      if (place < reached) {
        note(`${child.local} out of its place in ${shown(parent.local)}`);
      }
      reached = place;
      found.set(child.local, child);
    }
  }
  const missing = places.find(({ local, required }) => required && !found.has(local));
  if (missing !== undefined) {
    note(`no ${missing.local} in ${shown(parent.local)}`);
  }
  return found;
}

function matches(known: KnownAttribute, found: XmlAttribute): boolean {
  return (
    known.uri === found.uri &&
    known.local === found.local &&
    (known.value === undefined || known.value === found.value)
  );
}
