import type { BypassReason, RefusalReason } from '../../src/common/reasons.ts';
import { DATA_SOURCE_INFO } from './engine-files.ts';
import type { Catalog } from './engine-files.ts';
import type { PropertyList, XmlaMessage } from './envelope.ts';

/** One request, ready to be sent by POST. */
export interface NamedRequest extends XmlaMessage {
  /** Unique among all requests here. */
  readonly name: string;
  /** What a client sends beside the body; names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface CacheableRequest extends NamedRequest {
  /** The catalog that its properties or restrictions name; undefined when they name none. */
  readonly catalog: Catalog | undefined;
  /** Texts that the engine's answer holds, once the character references of the XML are read. */
  readonly holds: readonly string[];
  /** The answer is at least so long, in bytes. */
  readonly atLeastBytes: number;
}

/** A request that must not be looked up, with the reason for it. */
export interface BypassedRequest extends NamedRequest {
  readonly reason: BypassReason;
}

/** A request that may be looked up, but whose answer must not be stored, with the reason for that. */
export interface RefusedRequest extends NamedRequest {
  readonly reason: RefusalReason;
}

/** The properties that nearly every client sends to Mondrian. */
export function properties(catalog: Catalog, more: PropertyList = []): PropertyList {
  return [['DataSourceInfo', DATA_SOURCE_INFO], ['Catalog', catalog], ...more];
}

export const MULTIDIMENSIONAL: PropertyList = [
  ['Format', 'Multidimensional'],
  ['AxisFormat', 'TupleFormat'],
];

export const TABULAR: PropertyList = [['Format', 'Tabular']];

export function named<Extra extends object>(
  name: string,
  message: XmlaMessage,
  extra: Extra,
  headers: Readonly<Record<string, string>> = {},
): NamedRequest & Extra {
  return {
    name,
    ...message,
    headers: {
      'content-type': 'text/xml; charset=UTF-8',
      soapaction: message.soapAction,
      ...headers,
    },
    ...extra,
  };
}
