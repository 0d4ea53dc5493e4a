import { expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { sessionReader } from '../../../src/cache/answer-sessions.ts';
import { watchAnswer } from '../../../src/xmla/answer/watch-answer.ts';
import { sizes } from '../../support/sizes.ts';

const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';
const XMLA = 'urn:schemas-microsoft-com:xml-analysis';

const header = fc.constantFrom(
  '',
  '<s:Header/>',
  `<s:Header><x:Session xmlns:x="${XMLA}" SessionId="one"/></s:Header>`,
  `<s:Header><Session xmlns="${XMLA}" SessionId="\u{E9}"></Session></s:Header>`,
  `<s:Header><Other/><Session xmlns="${XMLA}" SessionId="two"/></s:Header>`,
  `<s:Header><!-- Session --></s:Header>`,
);
const answer = fc
  .tuple(
    header,
    fc.constantFrom('', '<r>Sessions</r>', `<r>${'x'.repeat(70_000)}</r>`),
    fc.nat(70_000),
  )
  .map(([head, body, blanks]) => {
    const space = ' '.repeat(blanks > 60_000 ? blanks : blanks % 3);
    return `<s:Envelope xmlns:s="${SOAP}">${space}${head}<s:Body>${body}</s:Body></s:Envelope>`;
  });

test('the session of an answer is found as by reading all of it, however it is cut', () => {
  let found = 0;
  fc.assert(
    fc.property(
      answer,
      fc.constantFrom('utf8' as const, 'utf16le' as const, 'latin1' as const),
      fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 30 }),
      (text, coding, lengths) => {
        const marks = { utf8: '', utf16le: '\u{FEFF}', latin1: '' };
        const declared = coding === 'latin1' ? '<?xml version="1.0" encoding="ISO-8859-1"?>' : '';
        const bytes = Buffer.from(marks[coding] + declared + text, coding);
        const headers = { 'content-type': 'text/xml' };
        const reader = sessionReader({ headers });
        const watch = watchAnswer({ contentType: headers['content-type'] });
        let at = 0;
        for (const length of [...lengths, bytes.length]) {
          const piece = bytes.subarray(at, (at += length));
          if (!reader.done()) reader.write(piece);
          if (!watch.headerRead) watch.write(piece);
          expect(reader.id()).toBe(watch.session?.id);
        }
        if (reader.id() !== undefined) found += 1;
      },
    ),
    { numRuns: sizes.propertyRuns },
  );
  expect(found).toBeGreaterThan(sizes.propertyRuns / 20);
});

test.each([1, 2, 3, 5, 6, 7, 8])('a session is found in pieces of %i bytes', (length) => {
  const text = `<s:Envelope xmlns:s="${SOAP}"><s:Header><Session xmlns="${XMLA}" SessionId="one"/></s:Header><s:Body/></s:Envelope>`;
  const bytes = Buffer.from(text);
  const reader = sessionReader({ headers: { 'content-type': 'text/xml' } });
  for (let at = 0; at < bytes.length; at += length) reader.write(bytes.subarray(at, at + length));
  expect(reader.id()).toBe('one');
});

test('a session whose tag holds many ends of tags is found behind the last byte at the latest', () => {
  const ends = '>'.repeat(60);
  const text = `<s:Envelope xmlns:s="${SOAP}"><s:Header><Session xmlns="${XMLA}" x="${ends}" SessionId="one"/></s:Header><s:Body/></s:Envelope>`;
  const reader = sessionReader({ headers: { 'content-type': 'text/xml' } });
  for (const byte of Buffer.from(text)) reader.write(Buffer.of(byte));
  reader.end();
  expect(reader.id()).toBe('one');
});

test('nothing is waited for behind the first 64 KiB of an answer that names no session', () => {
  const reader = sessionReader({ headers: { 'content-type': 'text/xml' } });
  const piece = Buffer.alloc(16 * 1024, 'x');
  for (let index = 0; index < 4; index += 1) {
    reader.write(piece);
    expect(reader.done()).toBe(false);
  }
  reader.write(piece);
  expect(reader.done()).toBe(true);
});
