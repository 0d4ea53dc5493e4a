/** What the gateway understood of one XMLA request. Pure data: no bytes, no HTTP. */

/** The value of an element `Session`, `BeginSession` or `EndSession` in the SOAP header. */
export type SessionHeader =
  | { readonly kind: 'none' }
  | { readonly kind: 'begin' }
  /** `understand` holds the attributes that say who must heed it: Mondrian takes no notice without them. */
  | { readonly kind: 'in'; readonly id: string; readonly understand: string }
  | { readonly kind: 'end'; readonly id: string };

/** A SOAP header block that can shape the answer: Version, NamespaceCompatibility, ProtocolCapabilities. */
export interface HeaderBlock {
  readonly uri: string;
  readonly local: string;
  /** Sorted by name; namespace declarations left out. */
  readonly attributes: readonly (readonly [name: string, value: string])[];
  /** The texts of its children `Capability`, or its own text as the only item. */
  readonly content: readonly string[];
}

/**
 * One restriction. `form` keeps how several values were spelt, because engines read the two differently:
 * `plain` is one element for each value, `value` is `<X><Value>a</Value><Value>b</Value></X>`.
 */
export interface Restriction {
  readonly name: string;
  readonly form: 'plain' | 'value';
  readonly values: readonly string[];
}

export interface Property {
  readonly name: string;
  readonly value: string;
}

/** One parameter of an Execute. `type` is the text of `xsi:type`, empty when there is none. */
export interface Parameter {
  readonly name: string;
  readonly type: string;
  readonly value: string;
}

interface XmlaRequestBase {
  readonly session: SessionHeader;
  /** Every session id that stands anywhere in the envelope, each once. */
  readonly sessionIds: readonly string[];
  /** True when it asks for a session token (SSAS), which is made for one session. */
  readonly sessionToken: boolean;
  /** In the order of the document. */
  readonly headers: readonly HeaderBlock[];
  /** True when a WS-Security element stands in the SOAP header. */
  readonly security: boolean;
  /** In the order of the document; names as spelt; a name may stand twice. */
  readonly properties: readonly Property[];
  /**
   * The first thing that the known shape does not name (an element, an attribute, a processing instruction,
   * text where none belongs, a second occurrence), in words for the log; undefined when there is none.
   */
  readonly unexpected: string | undefined;
}

export interface DiscoverRequest extends XmlaRequestBase {
  readonly method: 'Discover';
  readonly requestType: string;
  readonly restrictions: readonly Restriction[];
}

export interface ExecuteRequest extends XmlaRequestBase {
  readonly method: 'Execute';
  /** Local names of the children of Command, in order: `['Statement']` for a statement. */
  readonly commands: readonly string[];
  /** The text of the statement after XML decoding, untouched otherwise; '' when there is none. */
  readonly statement: string;
  readonly parameters: readonly Parameter[];
}

export type XmlaRequest = DiscoverRequest | ExecuteRequest;
