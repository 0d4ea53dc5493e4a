import { expect, test } from '@jest/globals';
import { soapActionContradicts, soapActionOf } from '../../../../src/xmla/names.ts';

const EXECUTE = 'urn:schemas-microsoft-com:xml-analysis:Execute';
const DISCOVER = 'urn:schemas-microsoft-com:xml-analysis:Discover';

test('the header that goes to the engine has quotes', () => {
  expect(soapActionOf('Execute')).toBe(`"${EXECUTE}"`);
  expect(soapActionOf('Discover')).toBe(`"${DISCOVER}"`);
});

test.each([undefined, '', '""', ' "" ', `"${EXECUTE}"`, EXECUTE, ` "${EXECUTE}" `])(
  'a header that says Execute or nothing does not contradict Execute: %j',
  (header) => {
    expect(soapActionContradicts(header, 'Execute')).toBe(false);
  },
);

test.each([
  DISCOVER,
  `"${DISCOVER}"`,
  'Execute',
  `"${EXECUTE}`,
  `${EXECUTE}"`,
  `""${EXECUTE}""`,
  EXECUTE.toLowerCase(),
  `${EXECUTE}, ${EXECUTE}`,
  `"${EXECUTE}", "${DISCOVER}"`,
  `" ${EXECUTE}"`,
  '"',
])('anything else contradicts Execute: %j', (header) => {
  expect(soapActionContradicts(header, 'Execute')).toBe(true);
});
