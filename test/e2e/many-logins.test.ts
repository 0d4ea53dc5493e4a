import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { hash } from 'bcrypt';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { faultAnswer, mddatasetAnswer, rowsetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, until } from '../support/http-client.ts';
import { gate, sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const query = execute({ statement: 'SELECT FROM [Sales]' });
const people = Array.from({ length: 100 }, (_, at) => `person${at}`);
/** Of all of them: a comparison takes some milliseconds. */
const PASSWORD = { text: 'fast cars', cost: 7 };
const login = (user: string, password: string) => ({
  headers: { authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}` },
});

const engine = shared(() => startStubEngine(sendXml(mddatasetAnswer())));

describe('when all come at nine', () => {
  let gateway: TestGateway;
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-logins-'));
    const users = join(folder, 'users');
    const hashed = await hash(PASSWORD.text, PASSWORD.cost);
    writeFileSync(users, people.map((user) => `${user}:${hashed}\n`).join(''));
    const settings = { engine: { url: engine.url }, auth: { users } };
    gateway = await startTestGateway(settings, { comparisons: 2 });
  });
  afterAll(async () => {
    await gateway.close();
    rmSync(folder, { recursive: true });
  });

  test('each is let in, while passwords are guessed at other addresses', async () => {
    const guesses = people.slice(0, 40).map((user, at) => {
      const agent = new Agent({ localAddress: `127.0.0.${2 + (at % 4)}` });
      return askXmla(gateway.url, query, { ...login(user, 'guess'), agent });
    });
    const answers = await Promise.all(
      people.map((user) => askXmla(gateway.url, query, login(user, PASSWORD.text))),
    );
    expect(answers.map(({ status }) => status)).toEqual(people.map(() => 200));
    for (const { status } of await Promise.all(guesses)) expect(status).toBe(401);
  });
});

describe('where the engine checks logins, and is slow', () => {
  let gateway: TestGateway;
  let skipped = 0;
  beforeAll(async () => {
    gateway = await startTestGateway(
      {
        auth: { provider: 'engine' },
        engine: { url: engine.url, login: 'forward' },
        listen: { open: ['metrics'] },
      },
      { clock: { now: () => performance.now() + skipped, wall: Date.now } },
    );
  });
  afterAll(() => gateway.close());

  test('who would wait too long is told so, and a client that goes away asks for nothing', async () => {
    const tried: string[] = [];
    const first = gate();
    const others = gate();
    engine.answerWith(async (response, request) => {
      const login = String(request.headers.authorization).slice(6);
      const [user = ''] = Buffer.from(login, 'base64').toString().split(':');
      // One that no user has.
      if (user.startsWith('mdx-gateway-test-')) return sendXml(faultAnswer())(response, request);
      if (request.body.equals(query)) return sendXml(mddatasetAnswer())(response, request);
      tried.push(user);
      await (user === 'person0' ? first : others).opened;
      return sendXml(rowsetAnswer())(response, request);
    });
    const begun = people.slice(0, 8).map((user) => askXmla(gateway.url, query, { user }));
    await until(() => tried.length === 8);
    const goes = httpRequest(`${gateway.url}/mdx/xmla`, {
      method: 'POST',
      headers: { authorization: basic('goes'), 'content-type': 'text/xml' },
    });
    goes.on('error', () => {});
    goes.end(query);
    const waits = people.slice(8, 10).map((user) => askXmla(gateway.url, query, { user }));
    const wait = async (count: number) => {
      const line = `\nmdx_gateway_logins_waiting ${count}\n`;
      while (!(await send(gateway.url, { path: '/metrics' })).text.includes(line));
    };
    await wait(3);
    goes.destroy();
    await wait(2);
    skipped = 300_000;
    first.open();
    await begun[0];
    await wait(1);
    const late = await askXmla(gateway.url, query, { user: 'late' });
    expect([late.status, shortStatus(late)]).toEqual([503, 'gateway login-queue']);
    expect(Number(late.headers['retry-after'])).toBeGreaterThan(30);
    expect(late.text).toContain('<SOAP-ENV:Fault>');
    others.open();
    for (const { status } of await Promise.all([...begun, ...waits])) expect(status).toBe(200);
    expect(tried).not.toContain('goes');
    expect(tried).not.toContain('late');
  });
});
