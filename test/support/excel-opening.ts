import { randomUUID } from 'node:crypto';
import type { Property, Restriction } from '../../src/xmla/request/read-request.ts';
import { discover, execute, type SessionSpec } from './envelopes.ts';
import { excelRequests } from './excel-session.ts';

/** One request of a workbook that is opened; the id of its session is not known before it begins. */
export interface OpeningRequest {
  readonly what: string;
  readonly body: (session: string) => Buffer;
}

/** New for every request or process. */
const ownIds = (): readonly Property[] => [
  { name: 'ClientProcessID', value: String(Math.trunc(Math.random() * 32_768)) },
  ...['SspropInitWsid', 'DbpropMsmdActivityID', 'DbpropMsmdRequestID'].map((name) => ({
    name,
    value: randomUUID(),
  })),
];
const COMMON: readonly Property[] = [
  { name: 'LocaleIdentifier', value: '1031' },
  { name: 'Content', value: 'SchemaData' },
  { name: 'Format', value: 'Tabular' },
  { name: 'SspropInitAppName', value: 'Microsoft Office' },
];
const IN_CATALOG: readonly Property[] = [{ name: 'Catalog', value: 'FoodMart' }];

const begin: OpeningRequest = {
  what: 'begin',
  body: () =>
    execute({
      statement: '',
      properties: [...COMMON, ...ownIds()],
      session: { kind: 'begin' },
    }),
};
const end: OpeningRequest = {
  what: 'end',
  body: (id) => execute({ statement: '', properties: COMMON, session: { kind: 'end', id } }),
};

function asks(
  requestType: string,
  restrictions: readonly Restriction[] = [],
  more: readonly Property[] = [],
): OpeningRequest {
  const [first] = restrictions;
  const names = first === undefined ? '' : ` ${first.values.join(' ')}`;
  return {
    what: `${requestType}${names}${more.length > 0 ? ' in its catalog' : ''}`,
    body: (id) => {
      const properties = [...COMMON, ...more, ...ownIds()];
      const session: SessionSpec = { kind: 'in', id };
      return discover({ requestType, restrictions, properties, session });
    },
  };
}

const named = (form: Restriction['form'], ...values: readonly string[]): readonly Restriction[] => [
  { name: 'PropertyName', form, values },
];

/** Before a session: whether the server knows the ids that will be sent. */
const whetherKnown: OpeningRequest = {
  what: 'DISCOVER_PROPERTIES of the ids',
  body: () =>
    discover({
      requestType: 'DISCOVER_PROPERTIES',
      restrictions: named(
        'value',
        ...['DbpropMsmdCurrentActivityID', 'DbpropMsmdActivityID', 'DbpropMsmdRequestID'],
      ),
      properties: COMMON,
    }),
};
const abilities = asks(
  'DISCOVER_PROPERTIES',
  named(
    'value',
    ...['ProviderVersion', 'DBMSVersion', 'MdpropMdxSubqueries', 'MdpropMdxDrillFunctions'],
    ...['MdpropMdxNamedSets', 'LocaleIdentifier'],
  ),
);

/**
 * The 54 requests of Excel 365 that opens a workbook, by the kinds of questions that were recorded of it: a first session in
 * which it looks around and that ends, and the one in which the workbook lives.
 */
export function excelOpening(): readonly OpeningRequest[] {
  const work = Array.from({ length: 41 }, (_, at): OpeningRequest => {
    const at54 = (id: string) => excelRequests(id)[at];
    return { what: at54('')?.question ?? '', body: (id) => at54(id)?.body ?? Buffer.alloc(0) };
  });
  return [
    ...[whetherKnown, begin, abilities, asks('DISCOVER_PROPERTIES', named('plain', 'Catalog'))],
    ...[asks('DBSCHEMA_CATALOGS'), asks('MDSCHEMA_CUBES', [], IN_CATALOG)],
    ...[asks('DISCOVER_LITERALS'), end, whetherKnown, begin, abilities],
    asks('DISCOVER_PROPERTIES', named('plain', 'Catalog'), IN_CATALOG),
    asks('DBSCHEMA_CATALOGS', [], IN_CATALOG),
    ...work,
  ];
}
