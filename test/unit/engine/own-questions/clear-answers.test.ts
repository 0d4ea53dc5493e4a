import { describe, expect, test } from '@jest/globals';
import { readClearAnswer } from '../../../../src/engine/own-questions.ts';
import { faultAnswer } from '../../../support/answers.ts';

const read = (
  text: string,
  { status = 200, coding, project }: { status?: number; coding?: string; project?: string } = {},
) =>
  readClearAnswer({ status, headers: { 'content-encoding': coding } }, Buffer.from(text), project);

describe('a clear was done', () => {
  test.each([
    ['Cache has been cleared.', undefined],
    ['Cache has been cleared.', 'learn'],
    ['cache has been cleared.\n', undefined],
    ['CACHE HAS BEEN CLEARED.', undefined],
    ['\ufeff\tcache  has been\r\ncleared.\u00a0', undefined],
    ['learn Cache has been cleared.', 'learn'],
    ['LEARN cache has been cleared.', 'Learn'],
    [' \r\n销售 cache has been cleared. \n', '销售'],
    ['Cafe\u0301 cache has been cleared.', 'CAFÉ'],
    ['ＬEARN cache has been cleared.', 'learn'],
    ['two  words\ncache has been cleared.', ' two words '],
    ['<a> Cache has been cleared.', '<a>'],
    ['$& cache has been cleared.', '$&'],
    ['No cache has been cleared.', 'no'],
  ])('by the words %j for the project %j', (text, project) => {
    const named = project === undefined ? {} : { project };
    expect(read(text, named)).toBeUndefined();
    expect(read(text, { coding: 'identity', ...named })).toBeUndefined();
  });
});

describe('a clear was not done', () => {
  const DONE = 'Cache has been cleared.';
  test.each<[string, string, number, string]>([
    ['a SOAP Fault with status 200', faultAnswer(), 200, 'SOAP Fault'],
    ['a Fault without a prefix', '<Fault xmlns="x"><faultstring/></Fault>', 200, 'SOAP Fault'],
    ['a Fault that says so', `${faultAnswer()} ${DONE}`, 200, 'SOAP Fault'],
    ['a page', '<!DOCTYPE html><html><body>Log in</body></html>', 200, 'a document'],
    ['a page that says so', `<html><p>${DONE}`, 200, 'a document'],
    ['an envelope', '<SOAP-ENV:Envelope/>', 200, 'a document'],
    ['an empty text', '', 200, 'empty'],
    ['half of the words', 'Cache has been', 200, '"Cache has been"'],
    ['words after them', `${DONE} Not.`, 200, 'other words'],
    ['a refused login', DONE, 401, 'refused the login (status 401)'],
    ['a forbidden call', DONE, 403, 'refused the login (status 403)'],
    ['a redirect', DONE, 302, 'status 302, a redirect, which is not followed'],
    ['an error', DONE, 500, 'status 500'],
    ['an accepted call', DONE, 202, 'status 202'],
    ['no content', '', 204, 'status 204'],
  ])('by %s', (_what, text, status, why) => {
    const said = read(text, { status });
    expect(said).toContain(why);
    expect(said).toMatch(/^It .*\.$/su);
    expect(said).not.toMatch(/cleared/i);
  });

  test('by the words in an unknown content coding', () => {
    expect(read(DONE, { coding: 'br' })).toContain('content coding');
  });

  test.each([
    ['No cache has been cleared.', undefined],
    ['No cache has been cleared.', 'learn'],
    ['learn: no cache has been cleared.', 'learn'],
    ['learn No cache has been cleared.', 'learn'],
    ['not learn cache has been cleared.', 'learn'],
    ['learn cache has been cleared.', undefined],
    ['learn cache has been cleared.', 'learn2'],
    ['learn2 cache has been cleared.', 'learn'],
    ['learnCache has been cleared.', 'learn'],
    ['The cache has been cleared.', undefined],
    ['Error. Cache has been cleared.', undefined],
    ['Cachehasbeencleared.', undefined],
    ['Cache has been cleared', undefined],
    ['learn learn cache has been cleared.', 'learn'],
  ])('by the words %j for the project %j', (text, project) => {
    const said = read(text, project === undefined ? {} : { project });
    expect(said).toBe('It answered with other words than those of clearCache.');
  });

  test('by other words, of which as much is shown as is safe', () => {
    const said = read(`no\u0000\n\u001b[31m${'x'.repeat(10_000)}`) ?? '';
    expect(said).toContain('"no [31mxxx');
    expect(said.length).toBeLessThan(200);
    expect(said).not.toMatch(/\p{Cc}/u);
  });
});
