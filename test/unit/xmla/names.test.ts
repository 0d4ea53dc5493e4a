import { expect, test } from '@jest/globals';
import { canonicalSoapAction, soapActionOf } from '../../../src/xmla/names.ts';

const EXECUTE = 'urn:schemas-microsoft-com:xml-analysis:Execute';
const DISCOVER = 'urn:schemas-microsoft-com:xml-analysis:Discover';
const LITE = 'urn:schemas-microsoft-com:xml-analysis#Execute';

test('the header that goes to the engine has quotes', () => {
  expect(soapActionOf('Execute')).toBe(`"${EXECUTE}"`);
  expect(soapActionOf('Discover')).toBe(`"${DISCOVER}"`);
});

test.each([undefined, '', '""', ' "" ', `"${EXECUTE}"`, EXECUTE, ` "${EXECUTE}" `])(
  'a header that says Execute or nothing goes on as the usual one: %j',
  (header) => {
    expect(canonicalSoapAction(header, 'Execute')).toBe(`"${EXECUTE}"`);
  },
);

test.each([LITE, `"${LITE}"`, ` "${LITE}" `])('%j goes on as SOAP::Lite writes it', (header) => {
  expect(canonicalSoapAction(header, 'Execute')).toBe(`"${LITE}"`);
  expect(canonicalSoapAction(header, 'Discover')).toBeUndefined();
});

test.each([
  DISCOVER,
  `"${DISCOVER}"`,
  'Execute',
  `"${EXECUTE}`,
  `${EXECUTE}"`,
  `""${EXECUTE}""`,
  EXECUTE.toLowerCase(),
  LITE.toLowerCase(),
  `${LITE}#Execute`,
  `${EXECUTE}, ${EXECUTE}`,
  `"${EXECUTE}", "${DISCOVER}"`,
  `" ${EXECUTE}"`,
  '"',
])('anything else contradicts Execute: %j', (header) => {
  expect(canonicalSoapAction(header, 'Execute')).toBeUndefined();
});
