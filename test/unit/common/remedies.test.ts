import { expect, test } from '@jest/globals';
import { BYPASS_REASONS, REFUSAL_REASONS } from '../../../src/common/reasons.ts';
import { REMEDIES } from '../../../src/common/remedies.ts';
import { schema } from '../../../src/config/config.ts';

test('each reason has a remedy, or why it is as it should be, in one sentence', () => {
  const reasons = [...Object.keys(BYPASS_REASONS), ...Object.keys(REFUSAL_REASONS)];
  expect(Object.keys(REMEDIES).toSorted()).toEqual(reasons.toSorted());
  expect(Object.values(REMEDIES).filter((text) => !/^[A-Z][^|`]{10,110}\.$/u.test(text))).toEqual(
    [],
  );
});

test('each names only keys of the configuration that there are', () => {
  const sections: Readonly<Record<string, { readonly keys?: object }>> = schema.keys;
  const named = Object.values(REMEDIES).flatMap(
    (text) => text.match(/\b[a-z_]+\.[a-z_]+\b/gu) ?? [],
  );
  const unknown = named.filter((key) => {
    const [section = '', name = ''] = key.split('.');
    return section !== 'projects' && !Object.hasOwn(sections[section]?.keys ?? {}, name);
  });
  expect([named.length > 5, unknown]).toEqual([true, []]);
});
