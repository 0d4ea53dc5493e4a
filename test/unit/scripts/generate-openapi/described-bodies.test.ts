import { beforeAll, describe, expect, test } from '@jest/globals';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import * as fc from 'fast-check';
import { checkDocument } from '../../../../src/datasets/document.ts';
import { describedInterface } from '../../../support/openapi-types.ts';
import { membershipBody, roleBody, roleListQuery } from '../../../../src/roles/role.ts';
import { sizes } from '../../../support/sizes.ts';
import { codePoint } from '../../../support/code-point.ts';

const { components, paths } = describedInterface('0');
const validators = new Map<string, ValidateFunction>();

beforeAll(() => {
  const ajv = new Ajv2020({ strict: false, validateSchema: false });
  ajv.addSchema({ $id: 'http://document/', components });
  for (const name of ['Role', 'Membership', 'Dataset']) {
    const $ref = `http://document/#/components/schemas/${name}`;
    validators.set(name, ajv.compile({ $ref }));
  }
});

const described = (name: string, value: unknown) => validators.get(name)?.(value);

/** What no pattern can say that all tools read, and descriptions say: half a character, and that nothing is visible. */
const BEYOND_PATTERNS = /\p{Cs}|"name":"[\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]+"/u;

/** Whether a body is described exactly when it is accepted; beyond patterns, at least then. */
function isTrueTo(name: string, value: unknown, accepted: boolean): boolean {
  const isDescribed = described(name, value);
  // JSON.stringify writes half a character as an escape.
  const text = JSON.stringify(value).replaceAll(/\\u(d[89a-f]..)/g, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
  return isDescribed === accepted || (isDescribed === true && BEYOND_PATTERNS.test(text));
}

/** Near the limits, and beyond them. */
const text = (longest: number) =>
  fc.oneof(
    fc.string({ unit: codePoint, maxLength: 12 }),
    fc.constantFrom('', ' ', 'a b', ' a', 'a ', 'a\u00a0', '\ufeffa', 'a\u0085b', 'a\nb', '\u2028'),
    fc.constantFrom('\ud800', 'a\udfffb', '👩‍👩‍👧', '\u0000', 'a\u200eb', '\u180ea'),
    fc.constantFrom('\u200b', '\u200d\ufe0f', '\u3164', '\u2800', '\u180e', 'a\u200b', '\u0301'),
    fc.constantFrom('a\u202eb', '\u2066a', 'a\u2069', '\u200fa', '\u{e0020}', '\u00ad'),
    fc.constantFrom(longest - 1, longest, longest + 1).map((length) => 'x'.repeat(length)),
    fc.constantFrom(longest, longest + 1).map((length) => '😀'.repeat(length)),
  );
const strange = fc.constantFrom(null, 1, true, [], {}, undefined);
const mostly = <T>(usual: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 12, arbitrary: usual }, { weight: 1, arbitrary: strange });

const member = mostly(
  fc.record(
    { type: mostly(fc.constantFrom('user', 'user', 'group')), name: mostly(text(255)) },
    { requiredKeys: [] },
  ),
);
const role = mostly(
  fc.record(
    {
      name: mostly(text(128)),
      description: mostly(text(2000)),
      contains: mostly(fc.array(member, { maxLength: 3 })),
      other: fc.anything(),
    },
    { requiredKeys: [] },
  ),
);
/** As it comes over the wire. */
const sent = (value: unknown): unknown => JSON.parse(JSON.stringify(value ?? null));

describe('a body is described exactly when it is accepted:', () => {
  test('of a role', () => {
    fc.assert(
      fc.property(role, (value) => {
        const { success } = roleBody.safeParse(sent(value));
        expect(isTrueTo('Role', sent(value), success)).toBe(true);
      }),
      { numRuns: sizes.propertyRuns * 4 },
    );
  });

  test('of a membership', () => {
    fc.assert(
      fc.property(role, (value) => {
        const { success } = membershipBody.safeParse(sent(value));
        expect(isTrueTo('Membership', sent(value), success)).toBe(true);
      }),
      { numRuns: sizes.propertyRuns * 4 },
    );
  });

  test('of a dataset', () => {
    const document = mostly(
      fc.record(
        {
          project: mostly(text(255)),
          dataset_name: mostly(text(255)),
          type: mostly(text(255)),
          other: fc.anything(),
        },
        { requiredKeys: [] },
      ),
    );
    fc.assert(
      fc.property(document, (value) => {
        const bytes = Buffer.from(JSON.stringify(sent(value)));
        expect(isTrueTo('Dataset', sent(value), checkDocument(bytes).ok)).toBe(true);
      }),
      { numRuns: sizes.propertyRuns * 4 },
    );
  });
});

test('the numbers of a page are described as they are accepted', () => {
  const parameters = paths['/api/roles']?.get?.parameters ?? [];
  const good = { pageNum: '0', pageSize: '1', containsDesc: 'true' };
  for (const name of ['pageNum', 'pageSize']) {
    const schema = parameters.find((parameter) => parameter.name === name)?.schema;
    const { minimum, maximum } = schema as { minimum: number; maximum: number };
    const accepted = [minimum - 1, minimum, maximum, maximum + 1].map(
      (value) => roleListQuery.safeParse({ ...good, [name]: String(value) }).success,
    );
    expect(accepted).toEqual([false, true, true, false]);
  }
  const required = parameters.filter((parameter) => parameter.required).map(({ name }) => name);
  expect(required).toEqual(Object.keys(good));
});
