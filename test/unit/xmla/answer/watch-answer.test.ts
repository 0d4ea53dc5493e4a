import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { inspectAnswer } from '../../../../src/xmla/answer/inspect-answer.ts';
import { watchAnswer } from '../../../../src/xmla/answer/watch-answer.ts';
import type { WatchedAnswer } from '../../../../src/xmla/answer/watch-answer.ts';
import {
  SESSION_HEADER,
  envelope,
  faultAnswer,
  mddatasetAnswer,
  sessionAnswer,
} from '../../../support/answers.ts';
import { fuzzSeed } from '../../../support/mutate.ts';
import { sizes } from '../../../support/sizes.ts';
import { BAD, GOOD } from './inspect-answer/answer-samples.ts';
import { mutated } from './inspect-answer/damaged-answers.ts';

function watched(...chunks: readonly (string | Buffer)[]): WatchedAnswer {
  const watch = watchAnswer({ contentType: 'text/xml' });
  for (const chunk of chunks) watch.write(Buffer.from(chunk));
  return watch;
}

function whole(...chunks: readonly (string | Buffer)[]): WatchedAnswer {
  const watch = watched(...chunks);
  watch.end();
  return watch;
}

describe('the header of an answer in passing', () => {
  test('is read when it is over, and not before', () => {
    const text = sessionAnswer();
    const over = text.indexOf('</SOAP-ENV:Header>') + '</SOAP-ENV:Header>'.length;
    const watch = watched(text.slice(0, over - 1));
    expect([watch.headerRead, watch.session]).toEqual([false, undefined]);
    watch.write(Buffer.from(text.slice(over - 1, over)));
    expect([watch.headerRead, watch.session?.id]).toEqual([true, '3a7f-20260101']);
  });

  test('is read at the body, where there is none', () => {
    const text = mddatasetAnswer({ style: 'ssas' });
    const body = text.indexOf('<soap:Body>') + '<soap:Body>'.length;
    const watch = watched(text.slice(0, body - 1));
    expect(watch.headerRead).toBe(false);
    watch.write(Buffer.from('>'));
    expect([watch.headerRead, watch.session]).toEqual([true, undefined]);
  });

  test.each([
    ['no XML', '{"a": 1}'],
    ['bytes of a compression', Buffer.from([0x1f, 0x8b, 8, 0, 0])],
    ['a page', '<html><body>'],
    ['another encoding', '<?xml version="1.0" encoding="x"?><a/>'],
    ['a document type', '<!DOCTYPE html>'],
    [
      'something else in the envelope',
      '<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><a/>',
    ],
    ['a length without a body', `<!--${'x'.repeat(70_000)}`],
  ])('is not waited for in %s', (_, start) => {
    const watch = watched(start);
    expect([watch.headerRead, watch.session]).toEqual([true, undefined]);
    watch.write(Buffer.from(sessionAnswer()));
    watch.end();
    expect([watch.session, watch.faultOnly]).toEqual([undefined, false]);
  });

  test('that names two sessions names none', () => {
    const watch = whole(mddatasetAnswer({ header: SESSION_HEADER + SESSION_HEADER }));
    expect([watch.headerRead, watch.session]).toEqual([true, undefined]);
  });

  test('that breaks off names none', () => {
    const text = sessionAnswer();
    const watch = whole(text.slice(0, text.indexOf('</SOAP-ENV:Header>')));
    expect([watch.headerRead, watch.session, watch.faultOnly]).toEqual([true, undefined, false]);
  });

  test('may hold other things, and a Fault may follow', () => {
    const other = '<a xmlns="urn:a">b</a>';
    const watch = whole(faultAnswer({ header: other + SESSION_HEADER + other }));
    expect([watch.session?.id, watch.faultOnly]).toEqual(['3a7f-20260101', true]);
  });
});

const FAULT = faultAnswer();

describe('an answer in passing', () => {
  test.each<[string, string, boolean]>([
    ['a Fault', FAULT, true],
    ['a Fault of SSAS', faultAnswer({ style: 'ssas' }), true],
    ['a dataset', mddatasetAnswer(), false],
    ['an empty body', envelope(''), false],
    ['two Faults', FAULT.replace(/<SOAP-ENV:Fault[^]*<\/SOAP-ENV:Fault>/, '$&$&'), false],
    ['a Fault and an element', FAULT.replace('</SOAP-ENV:Fault>', '$&<a/>'), false],
    ['an element and a Fault', FAULT.replace('<SOAP-ENV:Fault', '<a/>$&'), false],
    ['a Fault and text', FAULT.replace('</SOAP-ENV:Fault>', '$&a'), false],
    ['a Fault and text behind the body', FAULT.replace('</SOAP-ENV:Body>', '$&a'), false],
    ['a Fault and a second body', FAULT.replace('</SOAP-ENV:Body>', '$&<SOAP-ENV:Body/>'), false],
    ['a Fault of another namespace', envelope('<Fault xmlns="urn:a"/>'), false],
    ['a Fault within something', envelope('<a><SOAP-ENV:Fault/></a>'), false],
    ['a Fault without an end', FAULT.slice(0, FAULT.lastIndexOf('<')), false],
    ['a Fault that is ill-formed', FAULT.replace('</detail>', '</details>'), false],
    ['a Fault with something behind', `${FAULT}<a/>`, false],
    ['nothing', '', false],
  ])('%s', (_, text, faultOnly) => {
    const watch = watched(text);
    expect(watch.faultOnly).toBeUndefined();
    watch.end();
    expect([watch.headerRead, watch.faultOnly]).toEqual([true, faultOnly]);
  });

  test('never throws, and says the same however it is cut', () => {
    const seed = fuzzSeed();
    console.log(`watched answers: ${JSON.stringify({ seed })}`);
    const samples = [...GOOD, ...BAD];
    fc.assert(
      fc.property(
        fc.oneof(mutated(samples), fc.constantFrom(...samples)),
        fc.array(fc.nat({ max: 300 }), { maxLength: 10 }),
        ({ method, bytes }, lengths) => {
          const chunks: Buffer[] = [];
          let at = 0;
          for (const length of lengths) {
            chunks.push(bytes.subarray(at, at + length));
            at += length;
          }
          const inOne = whole(bytes);
          const cut = whole(...chunks, bytes.subarray(at));
          expect([cut.session, cut.faultOnly]).toEqual([inOne.session, inOne.faultOnly]);
          const inspector = inspectAnswer({ contentType: 'text/xml', method, errorsAsData: [] });
          inspector.write(bytes);
          const inspection = inspector.end();
          // What may be stored is no Fault, and both find the same session.
          if (!inspection.ok) return;
          expect([inOne.session, inOne.faultOnly]).toEqual([inspection.session, false]);
        },
      ),
      { numRuns: sizes.propertyRuns * 4, seed },
    );
  });
});
