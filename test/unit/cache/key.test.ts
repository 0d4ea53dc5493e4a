import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import * as keys from '../../../src/cache/key.ts';
import type { KeyEpochs } from '../../../src/freshness/freshness.ts';
import type { CacheScope } from '../../../src/freshness/freshness-store.ts';
import type { XmlaRequest } from '../../../src/xmla/request/read-request.ts';
import { sizes } from '../../support/sizes.ts';
import { flatParts, type FlatParts, nested } from './fakes.ts';
import { codePoint } from '../../support/code-point.ts';

const queryKey = (parts: FlatParts, epochs: KeyEpochs) => keys.queryKey(nested(parts), epochs);
const queryDigest = (parts: FlatParts) => nested(parts).asked.digest;

const EPOCHS: KeyEpochs = {
  scopes: ['everything', 'project:a'],
  tokens: ['one', 'two'],
  keySecret: 'secret',
};

/** Texts that look like the encoding they are put into, lone surrogates, and whatever else there is. */
const anyText = fc.oneof(
  fc.constantFrom(
    '',
    '"',
    '\\',
    ',',
    '","',
    '[',
    '],[',
    'null',
    '\0',
    '\uD800',
    '\uDC00',
    '\uFFFD',
  ),
  fc.string({ unit: codePoint, maxLength: 8 }),
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 4 })
    .map((units) => String.fromCharCode(...units)),
);
const textOrNull = fc.option(anyText);
const property = fc.record({ name: anyText, value: anyText });

/** Outer spaces and carriage returns of a statement do not count, so none are made here. */
const statement = anyText.map((text) => `SELECT${text.replaceAll('\r', '')}.`);

const headerBlock = fc.record({
  uri: anyText,
  local: anyText,
  attributes: fc.array(fc.tuple(anyText, anyText), { maxLength: 2 }),
  content: fc.array(anyText, { maxLength: 2 }),
});

const common = {
  session: fc.constant({ kind: 'none' } as const),
  sessionIds: fc.constant([]),
  sessionToken: fc.constant(false),
  headers: fc.array(headerBlock, { maxLength: 2 }),
  forms: fc.array(anyText, { maxLength: 2 }),
  security: fc.constant(false),
  unexpected: fc.constant(undefined),
  properties: fc.uniqueArray(property, { maxLength: 3, selector: ({ name }) => name }),
};
const request: fc.Arbitrary<XmlaRequest> = fc.oneof(
  fc.record({
    ...common,
    method: fc.constant('Discover' as const),
    requestType: anyText,
    restrictions: fc.array(
      fc.record({
        name: anyText,
        form: fc.constantFrom('plain', 'value'),
        values: fc.array(anyText, { maxLength: 3 }),
      }),
      { maxLength: 3 },
    ),
  }),
  fc.record({
    ...common,
    method: fc.constant('Execute' as const),
    commands: fc.constant(['Statement']),
    statement,
    parameters: fc.array(fc.record({ name: anyText, type: anyText, value: anyText }), {
      maxLength: 3,
    }),
  }),
);
const anyParts: fc.Arbitrary<FlatParts> = fc.record({
  engine: anyText,
  project: textOrNull,
  query: fc.array(anyText, { maxLength: 3 }),
  identity: anyText,
  userAgentClass: textOrNull,
  accept: textOrNull,
  contentType: anyText,
  soapAction: anyText,
  namedHeaders: fc
    .dictionary(fc.constantFrom('accept-language', 'x-tenant', 'x-zone'), anyText)
    .map((all) => {
      const sorted = Object.entries(all).sort();
      return sorted.length === 0 ? undefined : Object.fromEntries(sorted);
    }),
  session: textOrNull,
  request,
});
const anyEpochs: fc.Arbitrary<KeyEpochs> = fc
  .array(
    fc.tuple(
      anyText.map((name): CacheScope => `project:${name}`),
      anyText,
    ),
    { maxLength: 3 },
  )
  .map((pairs) => ({
    scopes: pairs.map(([scope]) => scope),
    tokens: pairs.map(([, token]) => token),
    keySecret: 'secret',
  }));

/** Text that tells any two values apart, by other means than the key does. */
function picture(value: unknown): string {
  if (typeof value === 'string')
    return `s${value.length}:${[...Array(value.length).keys()].map((i) => value.charCodeAt(i)).join('.')}`;
  if (Array.isArray(value)) return `a${value.length}(${value.map(picture).join(' ')})`;
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return `o(${entries.map(([name, inner]) => `${name}=${picture(inner)}`).join(' ')})`;
  }
  return String(value);
}

function sortedProperties(parts: FlatParts): FlatParts {
  const properties = [...parts.request.properties].sort((a, b) => (a.name < b.name ? -1 : 1));
  return { ...parts, request: { ...parts.request, properties } };
}

describe('the key of an entry', () => {
  test('is the same for equal requests under equal epochs, and for no others', () => {
    fc.assert(
      fc.property(anyParts, anyParts, anyEpochs, anyEpochs, (a, b, epochsA, epochsB) => {
        const equal =
          picture([sortedProperties(a), epochsA]) === picture([sortedProperties(b), epochsB]);
        expect(queryKey(a, epochsA) === queryKey(b, epochsB)).toBe(equal);
        expect(queryKey(structuredClone(a), structuredClone(epochsA))).toBe(queryKey(a, epochsA));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('changes with any one part, whatever the others are', () => {
    const names = Object.keys(flatParts()) as (keyof FlatParts)[];
    fc.assert(
      fc.property(anyParts, anyParts, fc.constantFrom(...names), (a, b, name) => {
        const changed = { ...a, [name]: b[name] };
        fc.pre(picture(sortedProperties(changed)) !== picture(sortedProperties(a)));
        expect(queryKey(changed, EPOCHS)).not.toBe(queryKey(a, EPOCHS));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('changes with the header blocks of the request, whatever else it asks', () => {
    fc.assert(
      fc.property(anyParts, fc.array(headerBlock, { maxLength: 2 }), (parts, headers) => {
        fc.pre(picture(headers) !== picture(parts.request.headers));
        const changed = { ...parts, request: { ...parts.request, headers } };
        expect(queryKey(changed, EPOCHS)).not.toBe(queryKey(parts, EPOCHS));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('is the same in all sessions of one profile, and another without a session', () => {
    const inSession = (id: string) =>
      queryKey(
        flatParts({
          session: 'profile',
          request: {
            ...flatParts().request,
            session: { kind: 'in', id, understand: '' },
            sessionIds: [id],
          },
        }),
        EPOCHS,
      );
    fc.assert(
      fc.property(anyText, anyText, (one, other) => {
        expect(inSession(one)).toBe(inSession(other));
      }),
      { numRuns: sizes.propertyRuns },
    );
    const keys = [null, '', 'null', 'profile'].map((session) =>
      queryKey(flatParts({ session }), EPOCHS),
    );
    expect(new Set(keys).size).toBe(4);
    expect(keys).toContain(inSession('one'));
  });

  test('tells an Execute from a Discover that says the same', () => {
    const { request } = flatParts();
    const discover = flatParts({
      request: { ...request, method: 'Discover', requestType: 'x', restrictions: [] },
    });
    const execute = flatParts({
      request: {
        ...request,
        method: 'Execute',
        commands: ['Statement'],
        statement: 'x',
        parameters: [],
      },
    });
    expect(queryKey(discover, EPOCHS)).not.toBe(queryKey(execute, EPOCHS));
  });

  test('does not let text move from one part into its neighbour', () => {
    const moved = new Set(
      [
        flatParts({ namedHeaders: { 'x-a': 'b', 'x-c': 'd' } }),
        flatParts({ namedHeaders: { 'x-a': 'b, x-c: d' } }),
        flatParts({ namedHeaders: { 'x-a': '' } }),
        flatParts({ project: 'ab', identity: 'c' }),
        flatParts({ project: 'a', identity: 'bc' }),
        flatParts({ project: null, identity: 'abc' }),
        flatParts({ project: '', identity: 'abc' }),
        flatParts({ project: 'null', identity: 'abc' }),
        flatParts({ query: ['a', 'b'] }),
        flatParts({ query: ['a","b'] }),
        flatParts({ query: ['b', 'a'] }),
        flatParts({ query: [''] }),
        flatParts({ query: [] }),
        flatParts({ contentType: 'text/xml', session: 'p' }),
        flatParts({ contentType: 'text/xmlp', session: '' }),
        flatParts({ engine: '\uD800' }),
        flatParts({ engine: '\uDC00' }),
        flatParts({ engine: '\uFFFD' }),
        flatParts({ engine: '\\ud800' }),
      ].map((parts) => queryKey(parts, EPOCHS)),
    );
    expect(moved.size).toBe(19);
  });

  test('tells the user named everyone from the shared entries', () => {
    expect(queryKey(flatParts({ identity: 'user:everyone' }), EPOCHS)).not.toBe(
      queryKey(flatParts({ identity: 'everyone' }), EPOCHS),
    );
  });

  test('is another one under other epochs, in another order, or under another secret', () => {
    const keys = [
      EPOCHS,
      { ...EPOCHS, tokens: ['one', 'three'] },
      { ...EPOCHS, tokens: ['two', 'one'] },
      { ...EPOCHS, scopes: ['everything', 'project:b'] as const },
      { ...EPOCHS, scopes: [], tokens: [] },
      { ...EPOCHS, keySecret: 'another' },
    ].map((epochs) => queryKey(flatParts(), epochs));
    expect(new Set(keys).size).toBe(keys.length);
  });

  test('does not change with values that are new in every request, nor with the order of properties', () => {
    const { request } = flatParts();
    const withProperties = (values: Record<string, string>) =>
      queryKey(
        flatParts({
          request: {
            ...request,
            properties: Object.entries(values).map(([name, value]) => ({ name, value })),
          },
        }),
        EPOCHS,
      );
    const plain = { Catalog: 'Sales', Format: 'Tabular' };
    const own = { DbpropMsmdRequestID: 'a', Timeout: '1' };
    const key = withProperties({ ...plain, ...own });
    expect(withProperties({ Timeout: '2', ...plain, DbpropMsmdRequestID: '' })).toBe(key);
    // Engines differ in which names they know.
    expect(withProperties(plain)).not.toBe(key);
    expect(withProperties({ ...plain, Timeout: '1' })).not.toBe(key);
    expect(withProperties({ ...plain, ...own, ClientProcessID: '1' })).not.toBe(key);
    expect(withProperties({ ...own, Format: 'Tabular' })).not.toBe(key);
    const otherwise = (value: string) => withProperties({ ...plain, timeout: value });
    expect(otherwise('1')).not.toBe(otherwise('2'));
  });

  test('holds all of the hash of what is asked, not only what is told of it', () => {
    const parts = nested(flatParts());
    const { digest } = parts.asked;
    const other = { ...parts, asked: { ...parts.asked, hash: digest.padEnd(43, '-') } };
    expect(keys.queryKey(other, EPOCHS)).not.toBe(keys.queryKey(parts, EPOCHS));
  });

  test('is 43 characters of base64url, which say nothing of what was asked', () => {
    expect(queryKey(flatParts(), EPOCHS)).toMatch(/^[\w-]{43}$/u);
  });
});

describe('the digest of a query', () => {
  test('is that of all other parts, for any identity and in any session', () => {
    const asked = (parts: FlatParts) =>
      picture({ ...sortedProperties(parts), identity: '', session: null });
    fc.assert(
      fc.property(anyParts, anyParts, (a, b) => {
        expect(queryDigest(a) === queryDigest(b)).toBe(asked(a) === asked(b));
        const { identity, session } = b;
        const ofOther: FlatParts = { ...a, identity, session };
        expect(queryDigest(ofOther)).toBe(queryDigest(a));
      }),
    );
  });

  test('tells apart what differs in one part', () => {
    const parts = flatParts();
    const other = { engine: 'other', project: 'other', query: ['a=b'], userAgentClass: 'Java' };
    for (const [name, value] of Object.entries({ ...other, accept: 'application/xml' })) {
      expect(queryDigest({ ...parts, [name]: value })).not.toBe(queryDigest(parts));
    }
    expect(queryDigest(parts)).toMatch(/^[\w-]{22}$/u);
  });
});
