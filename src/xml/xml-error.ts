/** What makes a document unreadable. */
export class XmlError extends Error {
  /**
   * `malformed`: against XML 1.0 or Namespaces in XML 1.0. `unread`: not read on purpose, as another version of XML
   * or more of something than is read.
   */
  readonly kind: 'malformed' | 'unread';

  constructor(kind: XmlError['kind'], detail: string) {
    super(detail);
    this.kind = kind;
  }
}

/** Thrown at the first thing that is not well-formed. */
export function malformed(detail: string): XmlError {
  return new XmlError('malformed', detail);
}

/** Thrown at the first thing that is not read on purpose. */
export function unread(detail: string): XmlError {
  return new XmlError('unread', detail);
}
