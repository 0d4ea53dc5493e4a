import { beforeEach, describe, expect, test } from '@jest/globals';
import express from 'express';
import supertest from 'supertest';
import { gzipSync } from 'node:zlib';
import { onlyMethods } from '../../../../src/http/answers.ts';
import { createPermissions, unauthenticated } from '../../../../src/auth/authenticator.ts';
import { GatewayError } from '../../../../src/common/errors.ts';
import { createConsolePages, frontPage } from '../../../../src/features/console/pages.ts';
import { toldBy } from './told.ts';
import { principalOf } from '../../../../src/common/principal.ts';

let told: Readonly<Record<string, object>>;
let asked: string[] = [];
beforeEach(() => {
  told = toldBy((name) => `the ${name}`);
  asked = [];
});

const pages = createConsolePages({
  login: async ({ headers: { authorization } }) => {
    if (authorization === undefined) throw unauthenticated();
    const [name = ''] = Buffer.from(authorization.slice(6), 'base64').toString().split(':');
    return principalOf(name);
  },
  permissions: createPermissions({ admins: ['ann'], viewers: ['eve'], purgers: ['pat'] }, 'nobody'),
  admin: {
    async tell(target) {
      asked.push(target);
      const found = told[target.split('?')[0] ?? ''];
      if (found === undefined) throw new GatewayError('overloaded', 'Try <b>again</b>.');
      return found;
    },
  },
  newId: () => 'made-id',
  emit: () => {},
});
const app = express();
app.use('/console', onlyMethods('GET', 'HEAD'), pages);
app.all('/', frontPage);
const open = (path: string, user = 'ann') => {
  const request = supertest(app).get(path);
  return user === '' ? request : request.auth(user, 'x');
};

const PAGES = [
  ['/console', 'Overview', 'Hit ratio'],
  ['/console/why', 'Why', 'XMLA request'],
  ['/console/queries', 'Queries', 'Heaviest queries'],
  ['/console/queries?view=requests', 'Queries', 'Latest requests'],
  ['/console/queries?view=entries', 'Queries', 'Entries in the memory'],
  ['/console/queries?digest=digest1', 'Queries', 'the statement'],
  ['/console/queries?id=the%20id', 'Queries', 'It took 1.62 s'],
  ['/console/purges', 'Purges', 'The latest purges'],
  ['/console/warm', 'Warm-up', 'What the next run asks'],
  ['/console/system', 'System', 'Configuration in force'],
] as const;

describe.each(PAGES)('%s', (path, title, text) => {
  test('is sent with its figures, readable without its script', async () => {
    const { status, headers, text: html } = await open(path);
    expect([status, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(html).toContain(`<title>${title} · MDX gateway</title>`);
    expect(html).toContain(text);
    expect(headers['cache-control']).toBe('no-store');
  });

  test('holds nothing that its Content-Security-Policy forbids', async () => {
    const { headers, text: html } = await open(path);
    expect(headers['content-security-policy']).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    expect(html.match(/<script(?! type="module" src="\/console\/console-[\da-f]{12}\.js">)/g)).toBe(
      null,
    );
    expect(html.match(/<[^>]* (?:style|on\w+)=/g)).toBe(null);
    expect(html.match(/(?:src|href)="(?!\/|#)/g)).toBe(null);
  });

  test('shows what others chose as text', async () => {
    const markup = `</textarea></pre></script><img src=x onerror="alert(1)"><script>alert(2)</script>'"&amp;{{7*7}}`;
    told = toldBy((name) => `${name} ${markup}`);
    const { status, text: html } = await open(path);
    expect(status).toBe(200);
    expect(html).not.toMatch(/<img|<script>|onerror="/);
    expect(html.match(/<\/(?:textarea|pre|script)>/g) ?? []).toHaveLength(
      html.match(/<(?:textarea|pre|script)[ >]/g)?.length ?? 0,
    );
  });

  test('says why a part of it is not told', async () => {
    const { '/admin/status': status = {} } = told;
    told = { '/admin/status': status };
    const { status: code, text: html } = await open(path);
    expect(code).toBe(200);
    if (path !== '/console/why') expect(html).toContain('Not shown: Try &lt;b>again&lt;/b>.');
  });
});

test('of several purges the chart names the latest', async () => {
  const { text: html } = await open('/console');
  expect(html.replaceAll('<!-- -->', '')).toContain(
    '2 purges, the last at 2026-01-02 03:04:05 UTC',
  );
});

describe('who sees a page', () => {
  test.each([
    ['ann', ['Overview', 'Why', 'Queries', 'Purges', 'Warm-up', 'System']],
    ['eve', ['Overview', 'Queries', 'Purges', 'Warm-up', 'System']],
    ['pat', ['Purges']],
  ])('%s is shown the ways to %j', async (user, titles) => {
    const { status, text: html } = await open('/console', user);
    expect(status).toBe(200);
    const [nav = ''] = /<nav aria-label="Pages">.*?<\/nav>/s.exec(html) ?? [];
    expect([...nav.matchAll(/>([^<>]+)<\/a>/g)].map(([, title]) => title)).toEqual(titles);
    expect(html).toContain(`<h1>${titles[0]}</h1>`);
  });

  test.each([
    ['/console', 'joe', 403],
    ['/console/purges', 'joe', 403],
    ['/console/none', 'joe', 403],
    ['/console/why', 'eve', 403],
    ['/console/system', 'pat', 403],
    ['/console/queries', 'pat', 403],
    ['/console/none', 'ann', 404],
    ['/console/console-000000000000.js', 'ann', 404],
    ['/console/console-%ff.js', 'ann', 404],
    ['/console/%2e%2e/metrics', 'ann', 404],
    ['/console', '', 401],
  ])('%s is told %s by %d, as a page', async (path, user, expected) => {
    const { status, headers, text: html } = await open(path, user);
    expect([status, headers['content-type']]).toEqual([expected, 'text/html; charset=utf-8']);
    expect(html).toContain('made-id');
    expect(html).not.toContain('<script');
    expect(asked).toEqual([]);
  });

  test('a login is asked for', async () => {
    const { headers } = await open('/console', '');
    expect(headers['www-authenticate']).toMatch(/^Basic /);
  });

  test('who may not purge is shown no button for it', async () => {
    const [admin, viewer] = [await open('/console/purges'), await open('/console/purges', 'eve')];
    expect(admin.text).toContain('Purge everything');
    expect(viewer.text).not.toMatch(/<button|<form|<dialog/);
  });

  test.each([
    ['POST', 405],
    ['DELETE', 405],
    ['HEAD', 200],
  ])('%s is answered by %d', async (method, expected) => {
    const request = supertest(app)[method.toLowerCase() as 'post' | 'delete' | 'head']('/console');
    const { status, text } = await request.auth('ann', 'x').catch((error: unknown) => {
      throw error;
    });
    expect(status).toBe(expected);
    if (method === 'HEAD') expect(text ?? '').toBe('');
  });
});

describe('script, style sheet and icon', () => {
  test('have names that say what is in them, may be kept for ever, and are short', async () => {
    const { text: html } = await open('/console');
    const paths = [...html.matchAll(/(?:src|href)="(\/console\/[^"]+\.\w+)"/g)].map(
      ([, path = '']) => path,
    );
    const types = ['image/svg+xml', 'text/css; charset=utf-8', 'text/javascript; charset=utf-8'];
    const answers = await Promise.all(paths.map((path) => supertest(app).get(path).buffer()));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(answers.map(({ headers }) => headers['content-type'])).toEqual(types);
    for (const { headers } of answers) expect(headers['cache-control']).toMatch(/immutable/);
    const bytes = answers.slice(1).map(({ text }) => gzipSync(text).length);
    expect(bytes.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(40 * 1024);
  });
});

describe('the page /', () => {
  test('has links for people', async () => {
    const { headers, text } = await supertest(app).get('/').set('accept', 'text/html,*/*;q=0.8');
    expect(headers['content-type']).toBe('text/html; charset=utf-8');
    for (const path of ['/console', '/docs', '/health/ready', '/metrics']) {
      expect(text).toContain(`<a href="${path}">`);
    }
  });

  test.each(['*/*', 'application/json'])('is JSON for programs that ask for %s', async (accept) => {
    const { body } = await supertest(app).get('/').set('accept', accept);
    expect(body).toMatchObject({ name: 'mdx-gateway', pages: { '/console': expect.any(String) } });
  });
});
