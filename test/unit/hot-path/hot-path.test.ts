import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import type { SessionRecord } from '../../../src/sessions/session-store.ts';
import { execute } from '../../support/envelopes.ts';
import { until } from '../../support/http-client.ts';
import { quiet } from '../query-cache/fakes.ts';
import {
  ANSWER,
  asked,
  FOUND,
  GUID,
  loggedIn,
  LOGIN,
  NO_SESSION,
  openHouse,
  SESSION,
  type House,
} from './hot-path-house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse();
});
afterEach(() => house.close());

const ask = async (...order: Parameters<House['ask']>) => `${await house.ask(...order)}`;
const taught: House['taught'] = (...order) => house.taught(...order);
/** The same bytes with others somewhere. */
const changed = (from: string, to: string) => Buffer.from(`${asked()}`.replace(from, to));

test('a query that is known is answered before the line, with its own session and whatever ids it makes up', async () => {
  await taught();
  expect(await ask(asked())).toBe(`<Session SessionId="${SESSION}"/>stored`);
  expect(await ask(asked(SESSION, GUID.replaceAll('0', 'f')))).toContain('stored');
  expect(house.line).toHaveLength(2);
  expect(house.events).toEqual(
    [1, 2].map(() => ({
      type: 'xmla-answered',
      id: 'id',
      principal: 'alice',
      project: '',
      subject: 'Execute',
      why: '',
      outcome: { kind: 'hit', detail: 'memory' },
      status: 200,
      bytes: ANSWER.body.length + SESSION.length,
      milliseconds: 0,
      saved: 7,
      complete: true,
    })),
  );
});

describe('goes the whole line, which gets the body as it came, when', () => {
  test.each<[string, () => void]>([
    ['the login must be checked again', () => (house.login = loggedIn('alice', false))],
    ['the entry is gone, too old or purged', () => (house.stored = undefined)],
    ['the session must be asked for', () => (house.session = undefined)],
    ['the session is not known', () => (house.session = { kind: 'unknown' })],
    [
      'the store of sessions is away',
      () => (house.session = { kind: 'unavailable', last: house.record }),
    ],
    ['the session is dirty', () => changeRecord({ dirty: true })],
    ['the session is somebody else’s', () => changeRecord({ principal: 'bob' })],
    ['the session began with something else', () => changeRecord({ profile: 'q' })],
    ['the session is in another catalog', () => changeRecord({ catalog: 'Other' })],
    ['the engine must be told that the session lives', () => changeRecord({ forwardedAt: 0 })],
  ])('%s', async (_why, happen) => {
    let counts = true;
    house.login = { principal: { name: 'alice' }, counts: () => counts && house.login.counts !== never };
    const never = () => false;
    await taught();
    expect(await ask(asked())).toContain('stored');
    counts = true;
    happen();
    if (!house.login.counts()) counts = false;
    const body = asked(SESSION, GUID.replaceAll('0', 'f'));
    expect(await ask(body)).toBe('the line');
    expect(house.line.at(-1)?.body).toEqual(body);
  });

  function changeRecord(other: Partial<SessionRecord>): void {
    house.session = { kind: 'known', record: { ...house.record, ...other } };
  }
});
