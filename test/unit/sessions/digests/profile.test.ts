import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { extendProfile, isExtended, sessionProfile } from '../../../../src/sessions/digests.ts';
import type { HeaderBlock, Property } from '../../../../src/xmla/request/read-request.ts';
import { sizes } from '../../../support/sizes.ts';
import { codePoint } from '../../../support/code-point.ts';

const profileOf = (
  properties: readonly Property[],
  headers: readonly HeaderBlock[],
  forms: readonly string[] = [],
  named?: Parameters<typeof sessionProfile>[1],
) => sessionProfile({ properties, headers, forms }, named);

const runs = { numRuns: sizes.propertyRuns };
const text = fc.oneof(
  fc.constantFrom('', '"', '","', '],[', 'null', '\uD800', 'Catalog'),
  fc.string({ unit: codePoint, maxLength: 4 }),
);
const ignored = fc.constantFrom('Timeout', 'ClientProcessID', 'SspropInitWsid');
const properties = fc.uniqueArray(fc.record({ name: text, value: text }), {
  maxLength: 5,
  selector: ({ name }) => name,
});
const headers: fc.Arbitrary<HeaderBlock[]> = fc.array(
  fc.record({
    uri: text,
    local: text,
    attributes: fc.array(fc.tuple(text, text), { maxLength: 2 }),
    content: fc.array(text, { maxLength: 2 }),
  }),
  { maxLength: 2 },
);

describe('the profile of a session', () => {
  test('is the same in whatever order its properties came', () => {
    fc.assert(
      fc.property(
        properties.chain((all) =>
          fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })),
        ),
        headers,
        ([one, other], blocks) => {
          expect(profileOf(other, blocks)).toBe(profileOf(one, blocks));
        },
      ),
      runs,
    );
  });

  test('knows of properties that are new in each session the names and not the values', () => {
    fc.assert(
      fc.property(properties, ignored, text, text, (all, name, value, other) => {
        const begun = profileOf([{ name, value }, ...all], []);
        expect(profileOf([{ name, value: other }, ...all], [])).toBe(begun);
        expect(profileOf(all, [])).not.toBe(begun);
      }),
      runs,
    );
  });

  test('is another one where a toolkit wrote them in another form', () => {
    const all = [{ name: 'Catalog', value: '' }];
    const forms = [[], ['PropertyList/Catalog nil=true'], ['Properties nil=true']];
    expect(new Set(forms.map((one) => profileOf(all, [], one))).size).toBe(forms.length);
  });

  test('is another one for other properties or header blocks', () => {
    const sorted = (all: readonly { name: string; value: string }[]) =>
      all.map(({ name, value }) => JSON.stringify([name, value])).sort();
    fc.assert(
      fc.property(properties, headers, properties, headers, (one, oneBlocks, other, blocks) => {
        const parts = JSON.stringify([sorted(one), oneBlocks]);
        const equal = parts === JSON.stringify([sorted(other), blocks]);
        expect(profileOf(one, oneBlocks) === profileOf(other, blocks)).toBe(equal);
      }),
      runs,
    );
  });

  test('is another one for another value of a header that is named', () => {
    const values = [undefined, { 'x-tenant': 'A' }, { 'x-tenant': 'B' }, { 'x-tenant': '' }];
    const profiles = values.map((named) => profileOf([], [], [], named));
    expect(new Set(profiles).size).toBe(values.length);
  });

  test('holds the catalog of the beginning, and the spelling of every name', () => {
    const profiles = [
      [],
      [{ name: 'Catalog', value: 'Sales' }],
      [{ name: 'Catalog', value: 'sales' }],
      [{ name: 'catalog', value: 'Sales' }],
      [
        { name: 'Catalog', value: 'Sales' },
        { name: 'Catalog', value: 'HR' },
      ],
      [
        { name: 'Catalog', value: 'HR' },
        { name: 'Catalog', value: 'Sales' },
      ],
    ].map((all) => profileOf(all, []));
    expect(new Set(profiles).size).toBe(profiles.length);
  });

  test('is another one with a catalog that was named later, for each profile and catalog', () => {
    fc.assert(
      fc.property(text, text, text, text, (profile, catalog, other, otherCatalog) => {
        const equal = profile === other && catalog === otherCatalog;
        const extended = extendProfile(profile, catalog);
        expect(extended === extendProfile(other, otherCatalog)).toBe(equal);
        expect(extended).not.toBe(profile);
      }),
      runs,
    );
    const begun = profileOf([{ name: 'Catalog', value: 'Sales' }], []);
    expect(extendProfile(profileOf([], []), 'Sales')).not.toBe(begun);
  });

  test('is a digest, so that it is short and shows nothing', () => {
    const profile = profileOf([{ name: 'Catalog', value: 'x'.repeat(100_000) }], []);
    expect(profile).toMatch(/^[\w-]{43}$/u);
    expect(extendProfile(profile, 'Sales')).toMatch(/^\+[\w-]{43}$/u);
    expect([isExtended(profile), isExtended(extendProfile(profile, 'Sales'))]).toEqual([
      false,
      true,
    ]);
  });
});
