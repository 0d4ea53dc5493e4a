import { beforeEach, describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, sendRaw, shortStatus } from '../support/http-client.ts';
import { sizes } from '../support/sizes.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway } from '../support/test-gateway.ts';
import { codePoint } from '../support/code-point.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(sendXml(mddatasetAnswer())));
/** Its engine's path names the project. */
const byProject = shared(() =>
  startTestGateway({ engine: { url: `${engine.url}/{project}/end` } }),
);
/** Its engine has one path for all. */
const onePath = shared(() => startTestGateway({ engine: { url: engine.url } }));
let count = 0;

beforeEach(() => {
  engine.seen.length = 0;
});

const passedThrough = execute({ statement: 'CALL something()' });
const newQuery = () => execute({ statement: `SELECT FROM [Sales ${(count += 1)}]` });
const urlSeen = () => engine.seen.at(-1)?.url;

const GOOD: readonly (readonly [target: string, engineSees: string])[] = [
  ['/mdx/xmla', '/xmla/end'],
  ['/mdx/xmla/', '/xmla/end'],
  ['/mdx/xmla/FoodMart', '/xmla/FoodMart/end'],
  ['/mdx/xmla/FoodMart/', '/xmla/FoodMart/end'],
  ['/mdx/xmla/%46oodMart', '/xmla/FoodMart/end'],
  ['/mdx/xmla/a%20b', '/xmla/a%20b/end'],
  ['/mdx/xmla/a+b', '/xmla/a%2Bb/end'],
  ['/mdx/xmla/a%2Fb', '/xmla/a%2Fb/end'],
  ['/mdx/xmla/a%2fb', '/xmla/a%2Fb/end'],
  ['/mdx/xmla/a%5Cb', '/xmla/a%5Cb/end'],
  ['/mdx/xmla/a\\b', '/xmla/a%5Cb/end'],
  ['/mdx/xmla/%252e%252e', '/xmla/%252e%252e/end'],
  ['/mdx/xmla/...', '/xmla/.../end'],
  ['/mdx/xmla/%E9%94%80%E5%94%AE', '/xmla/%E9%94%80%E5%94%AE/end'],
  ['/mdx/xmla/%e9%94%80', '/xmla/%E9%94%80/end'],
  ['/mdx/xmla/%F0%9F%98%80', '/xmla/%F0%9F%98%80/end'],
  ['/mdx/xmla/a;b=c', '/xmla/a%3Bb%3Dc/end'],
  ['/mdx/xmla/a%3Fb', '/xmla/a%3Fb/end'],
  ['/mdx/xmla/a%23b', '/xmla/a%23b/end'],
  ['/mdx/xmla/a#b', '/xmla/a%23b/end'],
  ['/mdx/xmla/{project}', '/xmla/%7Bproject%7D/end'],
  ['/mdx/xmla/__project__', '/xmla/__project__/end'],
  ["/mdx/xmla/$&$1$'", "/xmla/%24%26%241%24'/end"],
  ['/mdx/xmla/xclearCachey', '/xmla/xclearCachey/end'],
  ['/mdx/xmla/clearcache', '/xmla/clearcache/end'],
  ['/mdx/xmla?a=/b', '/xmla/end?a=/b'],
  ['/mdx/xmla/?a=1', '/xmla/end?a=1'],
  ['/mdx/xmla/p?x=clearCache', '/xmla/p/end?x=clearCache'],
  ['/mdx/xmla/p?', '/xmla/p/end'],
  ['http://elsewhere.example/mdx/xmla/p?q=1', '/xmla/p/end?q=1'],
  ['HTTPS://user@elsewhere.example:1/mdx/xmla/p', '/xmla/p/end'],
];

const BAD: readonly (readonly [target: string, status: number])[] = [
  ['/mdx/xmla//', 400],
  ['/mdx/xmla//p', 400],
  ['/mdx/xmla/.', 400],
  ['/mdx/xmla/..', 400],
  ['/mdx/xmla/%2e', 400],
  ['/mdx/xmla/%2e%2e', 400],
  ['/mdx/xmla/%2E.', 400],
  ['/mdx/xmla/../xmla', 400],
  // An engine that decodes `%2F` too early would climb its path, or purge.
  ['/mdx/xmla/..%2f..', 400],
  ['/mdx/xmla/a%2F..%5Cb', 400],
  ['/mdx/xmla/a%2F.', 400],
  ['/mdx/xmla/..;%2Fa', 400],
  ['/mdx/xmla/a%2FclearCache;b', 400],
  ['/mdx/xmla/a%2FclearCache', 400],
  ['/mdx/xmla/a%5CclearCache%2F', 400],
  ['/mdx/xmla/a%00b', 400],
  ['/mdx/xmla/a%0d%0aX:1', 400],
  ['/mdx/xmla/a%7F', 400],
  ['/mdx/xmla/%C2%85', 400],
  ['/mdx/xmla/%', 400],
  ['/mdx/xmla/%4', 400],
  ['/mdx/xmla/%zz', 400],
  ['/mdx/xmla/%FF', 400],
  ['/mdx/xmla/%C0%AE%C0%AE', 400],
  ['/mdx/xmla/%C0%AF', 400],
  ['/mdx/xmla/a%2FclearCache', 400],
  ['/mdx/xmla/a%2fclearCache/clearCache', 400],
  ['/mdx/xmla/%E0%80%AF', 400],
  ['/mdx/xmla/%ED%A0%80', 400],
  ['/mdx/xmla/%F4%90%80%80', 400],
  ['/mdx/xmla/%2e%2e/clearCache', 400],
  ['/mdx/xmla//clearCache', 400],
  ['/mdx/xmla/a/b', 404],
  ['/mdx/xmla/clearCache/a', 404],
  ['/mdx/xmla/a/b/clearCache', 404],
  ['/mdx/xmlaa', 404],
  ['/mdx/xml', 404],
  ['/MDX/xmla', 404],
  ['/mdx/XMLA', 404],
  ['//mdx/xmla', 404],
  ['/mdx//xmla', 404],
  ['/./mdx/xmla', 404],
  ['/mdx/xmla_server/p', 404],
];

describe('a project name in the path', () => {
  test.each(GOOD)('%s reaches the engine as %s', async (path, expected) => {
    for (const body of [passedThrough, newQuery()]) {
      const answer = await askXmla(byProject.url, body, { path });
      expect(answer.status).toBe(200);
      expect(urlSeen()).toBe(expected);
    }
  });

  test.each(GOOD)('%s changes no path of an engine that has one for all', async (path) => {
    for (const body of [passedThrough, newQuery()]) {
      await askXmla(onePath.url, body, { path });
      expect(urlSeen()?.split('?')[0]).toBe('/xmla');
    }
  });

  test.each(BAD)('%s is refused by %i', async (path, status) => {
    const answer = await askXmla(byProject.url, passedThrough, { path });
    expect(answer.status).toBe(status);
    expect(engine.seen).toEqual([]);
  });

  test.each(BAD.filter(([path]) => path.startsWith('/mdx/xmla/')))(
    '%s is refused by a Fault that says why',
    async (path, status) => {
      const answer = await askXmla(byProject.url, passedThrough, { path });
      expect(shortStatus(answer)).toBe(`gateway ${status === 400 ? 'bad-request' : 'not-found'}`);
      expect(answer.text).toContain('<SOAP-ENV:Fault>');
    },
  );

  test.each(['\xe9', '\x80\xff', 'é'])('in raw bytes is refused', async (name) => {
    const answer = await sendRaw(
      portOf(byProject.url),
      Buffer.from(
        `GET /mdx/xmla/${name} HTTP/1.1\r\nhost: x\r\nauthorization: ${basic('alice')}\r\nconnection: close\r\n\r\n`,
        'latin1',
      ),
    );
    expect(answer.bytes.toString('latin1')).toMatch(/^HTTP\/1\.1 400 /);
    expect(engine.seen).toEqual([]);
  });

  test('never changes the path of the engine by more than its own segment', async () => {
    const name = fc
      .string({ unit: codePoint, minLength: 1, maxLength: 20 })
      .filter((text) => text.isWellFormed());
    const pieces = fc.constantFrom(
      '.',
      '..',
      '/',
      '\\',
      '%',
      '%2e',
      '?',
      '#',
      ';',
      '{project}',
      '$&',
    );
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          name,
          fc.array(pieces, { minLength: 1 }).map((p) => p.join('')),
        ),
        async (project) => {
          engine.seen.length = 0;
          const segment = encodeURIComponent(project);
          const answer = await askXmla(byProject.url, passedThrough, {
            path: `/mdx/xmla/${segment}`,
          });
          const parts = project.split(/[/\\]/).map((part) => part.replace(/;.*$/s, ''));
          const climbs = parts.includes('.') || parts.includes('..');
          const nested = parts.length > 1 || project === 'clearCache';
          const purges = nested && parts.findLast((part) => part !== '') === 'clearCache';
          if (climbs || purges || /\p{Cc}/u.test(project)) {
            expect(answer.status).not.toBe(200);
            expect(engine.seen).toEqual([]);
            return;
          }
          expect(answer.status).toBe(200);
          const seen = new URL(urlSeen() ?? '', engine.url).pathname.split('/');
          expect([seen.length, seen[1], seen[3]]).toEqual([4, 'xmla', 'end']);
          expect(decodeURIComponent(seen[2] ?? '')).toBe(project);
        },
      ),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('that is clearCache has a purge, and no XMLA path of its own', async () => {
    const answers = [];
    for (const path of [
      '/mdx/xmla/clearCache',
      '/mdx/xmla/%63learCache/',
      '/mdx/xmla/clearCache/clearCache',
      '/mdx/xmla/clearCache/clearCache/',
    ]) {
      answers.push((await askXmla(onePath.url, newQuery(), { path, user: 'ADMIN' })).text);
    }
    expect(answers).toEqual([
      'Cache has been cleared.',
      'Cache has been cleared.',
      'clearCache Cache has been cleared.',
      'clearCache Cache has been cleared.',
    ]);
    expect(engine.seen).toEqual([]);
  });
});
