import { describe, expect, test } from '@jest/globals';
import type { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import type { Authenticator } from '../../../src/auth/authenticator.ts';
import { createLogin } from '../../../src/http/login.ts';

/** Knows headers `right NAME`; each that was checked is remembered until it is forgotten. */
function house() {
  const checked: (string | undefined)[] = [];
  let digests = 0;
  const known = new Set<string>();
  const authenticator: Authenticator = {
    async authenticate(authorization) {
      checked.push(authorization);
      const name = /^right (.*)$/.exec(authorization ?? '')?.[1];
      if (name === undefined) return { ok: false, reason: 'rejected', retryAfter: 0 };
      known.add(authorization ?? '');
      return { ok: true, principal: { name } };
    },
    remembered(authorization) {
      digests += 1;
      if (!known.has(authorization)) return undefined;
      const principal = { name: authorization.slice('right '.length) };
      return { principal, counts: () => known.has(authorization) };
    },
    isLookAlike: () => false,
    async close() {},
  };
  const login = createLogin(authenticator, () => 'address');
  const request = (socket: Socket, authorization?: string) =>
    ({ socket, headers: { ...(authorization && { authorization }) } }) as IncomingMessage;
  return { login, request, known, checked, digests: () => digests };
}

describe('the login of a request', () => {
  test('is checked once, and then known by its digest', async () => {
    const { login, request, checked, digests } = house();
    const socket = new Socket();
    expect(await login(request(socket, 'right A'))).toEqual({ name: 'A' });
    for (let i = 0; i < 5; i += 1) {
      expect(login(request(socket, 'right A'))).toEqual({ name: 'A' });
    }
    expect([checked.length, digests()]).toEqual([1, 6]);
    expect(login(request(new Socket(), 'right A'))).toEqual({ name: 'A' });
    expect([checked.length, digests()]).toEqual([1, 7]);
  });

  test('is never that of another request of the connection', async () => {
    const { login, request } = house();
    const socket = new Socket();
    await login(request(socket, 'right A'));
    await login(request(socket, 'right B'));
    for (const name of ['A', 'B', 'B', 'A']) {
      expect(login(request(socket, `right ${name}`))).toEqual({ name });
    }
    await expect(login(request(socket, 'right'))).rejects.toMatchObject({ status: 401 });
    await expect(login(request(socket))).rejects.toMatchObject({ status: 401 });
  });

  test('is checked again when it no longer counts', async () => {
    const { login, request, known, checked } = house();
    const socket = new Socket();
    await login(request(socket, 'right A'));
    await login(request(socket, 'right A'));
    known.clear();
    expect(await login(request(socket, 'right A'))).toEqual({ name: 'A' });
    expect(checked).toHaveLength(2);
  });
});
