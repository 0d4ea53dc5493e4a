import { describe, expect, test } from '@jest/globals';
import { isUsual } from '../../../../src/common/header-names.ts';
import { answerHeaders, requestHeaders } from '../../../../src/proxy/forwarded.ts';

/** Each makes somebody else of the client at some engine, or behind some server in front of one. */
const IDENTITIES: readonly (readonly [attack: string, name: string])[] = [
  ['the cookie of another login', 'cookie'],
  ['the engine’s own gateway login', 'gatewayauth'],
  ['a user named by a proxy', 'x-forwarded-user'],
  ['groups named by a proxy', 'x-forwarded-groups'],
  ['a mail address named by a proxy', 'x-forwarded-email'],
  ['a preferred name named by a proxy', 'x-forwarded-preferred-username'],
  ['a remote user', 'x-remote-user'],
  ['a remote user without prefix', 'remote-user'],
  ['an authenticated user', 'x-auth-user'],
  ['a login for a proxy', 'proxy-authorization'],
  ['the login of the client beside that of the gateway', 'authorization'],
  ['the rights of another user', 'execute-as-user-id'],
  ['an answer in binary', 'x-transport-caps-negotiation-flags'],
];

describe('a request that is passed through', () => {
  test.each(IDENTITIES)('never carries %s (%s), however the name is spelt', (_attack, name) => {
    const spellings = new Set([name, name.replaceAll('-', '_'), name.replace('-', '_')]);
    for (const sign of ['.', '~', '!', '#', '$', '%', '&', "'", '*', '+', '^', '`', '|']) {
      spellings.add(name.replaceAll('-', sign));
    }
    for (const spelling of spellings) {
      expect(requestHeaders({ [spelling]: 'bob', via: '1' }, undefined, 3, isUsual)).toEqual({
        via: '1',
        'content-length': '3',
      });
    }
  });

  test('carries the login that it is given, and no other', () => {
    const sent = requestHeaders(
      { authorization: 'Basic Ym9i', x_authorization: 'y' },
      'Basic b25l',
      0,
      isUsual,
    );
    expect(sent).toEqual({
      authorization: 'Basic b25l',
      'content-length': '0',
    });
  });

  test('carries the session and the ids that its client named', () => {
    const named = { 'x-as-sessionid': '1', 'x-as-activityid': '2', 'x-as-requestid': '3' };
    expect(requestHeaders(named, undefined, undefined, isUsual)).toEqual(named);
  });
});

test('an answer that is passed on brings no cookie, however its name is spelt', () => {
  const headers = { 'set-cookie': ['MDXAUTH=bob'], set_cookie: 'a', 'x-as-sessionid': '1' };
  expect(answerHeaders(headers)).toEqual({ 'x-as-sessionid': '1' });
});
