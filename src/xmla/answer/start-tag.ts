/**
 * A start tag as it was just read. It is one object that the next tag overwrites, so nothing of it may be kept.
 * Offsets count the bytes of the document in UTF-8, a byte order mark included.
 */
export interface StartTag {
  readonly local: string;
  readonly uri: string;
  /** what `flagOf` of the scanner says of the local name */
  readonly flag: number;
  /** from its `<`, up to and with its `>` */
  readonly start: number;
  readonly end: number;
  /** whether it ends its element too */
  readonly empty: boolean;
  /**
   * For the sink: what it said of the names and attributes of this tag, 0 while it has said nothing. What it says is
   * kept for tags that are the same, so it must not depend on where they stand.
   */
  verdict: number;
  /** Its attributes, without those that declare namespaces. Builds them anew for each call. */
  attributes(): TagAttribute[];
  /** Whether an attribute of a namespace has this value, white space around it aside. Takes next to no time. */
  hasAttribute(uri: string, local: string, value: Uint8Array): boolean;
}

export interface TagAttribute {
  readonly local: string;
  /** '' is no namespace */
  readonly uri: string;
  /** its value, references replaced, each white space character a blank (XML 1.0 section 3.3.3) */
  readonly value: string;
  /** where the value stands, without its quotes */
  readonly start: number;
  readonly end: number;
}
