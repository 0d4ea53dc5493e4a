import { describe, expect, test } from '@jest/globals';
import { isUsual, nameAsRead, whyNotNamed } from '../../../src/common/header-names.ts';

const IDENTITY = /pass for another one/;
const CONNECTION = /connection or the body/;
const NEW = /new for every request/;
const RULE = /a rule of its own/;

describe('engine.headers must not name', () => {
  test.each([
    ['authorization', IDENTITY],
    ['cookie', IDENTITY],
    ['gatewayauth', IDENTITY],
    ['x-forwarded-user', IDENTITY],
    ['x-forwarded-for', IDENTITY],
    ['x-forwarded-tenant', IDENTITY],
    ['x-remote-user', IDENTITY],
    ['x-auth-user', IDENTITY],
    ['remote-user', IDENTITY],
    ['execute-as-user-id', IDENTITY],
    ['x-transport-caps-negotiation-flags', IDENTITY],
    ['expect', CONNECTION],
    ['host', CONNECTION],
    ['connection', CONNECTION],
    ['keep-alive', CONNECTION],
    ['proxy-authorization', CONNECTION],
    ['proxy-connection', CONNECTION],
    ['te', CONNECTION],
    ['trailer', CONNECTION],
    ['transfer-encoding', CONNECTION],
    ['upgrade', CONNECTION],
    ['content-type', CONNECTION],
    ['content-length', CONNECTION],
    ['content-encoding', CONNECTION],
    ['content-language', CONNECTION],
    ['x-request-id', NEW],
    ['traceparent', NEW],
    ['baggage', NEW],
    ['accept', RULE],
    ['accept-encoding', RULE],
    ['user-agent', RULE],
    ['soapaction', RULE],
    ['x-as-sessionid', RULE],
    ['origin', RULE],
    ['referer', RULE],
    ['sec-fetch-site', RULE],
  ])('%s, however it is spelt', (name, why) => {
    const spellings = [name, name.replaceAll('-', '_'), name.replace('-', '_')];
    for (const sign of ['.', '~', '!', '*', '+', '|']) spellings.push(name.replaceAll('-', sign));
    for (const spelling of spellings) expect(whyNotNamed(spelling)).toMatch(why);
  });

  test.each([
    ...['accept-language', 'accept-charset', 'x-tenant', 'x_tenant', 'x-real-ip', 'x-api-key'],
    ...['x-forwarded', 'contents', 'x-host', 'hosts', 'cookie-consent', 'authorization-mode'],
  ])('what is none of these: %s', (name) => {
    expect(whyNotNamed(name)).toBeUndefined();
  });
});

test.each(['accept-language', 'x-tenant', 'x-api-key', 'x-roles', 'x-forwarded-roles', 'cookie'])(
  '%s is not usual',
  (name) => expect(isUsual(name)).toBe(false),
);

test('a name is read as CGI reads it', () => {
  expect(nameAsRead('x_remote.user')).toBe('x-remote-user');
  expect(nameAsRead('x-tenant')).toBe('x-tenant');
});
