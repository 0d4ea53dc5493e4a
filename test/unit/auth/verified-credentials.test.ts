import { describe, expect, test } from '@jest/globals';
import {
  createVerifiedCredentials,
  createVerifiedTable,
  type Trust,
} from '../../../src/auth/verified-credentials.ts';
import { basic, createTestClock } from './support.ts';
import { principalOf } from '../../../src/common/principal.ts';

const HOUR = 3_600_000;

const trustOf = (trust: Partial<Trust> = {}): Trust => ({
  verifiedFor: 60_000,
  since: 'check',
  believedFor: 0,
  ...trust,
});

function setUp({ max = 10, ...trust }: Partial<Trust> & { max?: number } = {}) {
  const clock = createTestClock();
  const hashes = new Map([
    ['A', 'hash of A'],
    ['B', 'hash of B'],
    ...['1', '2', '3', '4'].map((n) => [`user ${n}`, `hash of user ${n}`] as const),
  ]);
  const verified = createVerifiedCredentials({
    table: createVerifiedTable(Buffer.alloc(32, 7), max),
    trust: trustOf(trust),
    users: { accounts: hashes },
    clock,
  });
  return {
    clock,
    hashes,
    verified,
    remember: (digest: string, name: string) =>
      verified.remember(digest, principalOf(name), `hash of ${name}`, clock.now()),
    found: (digest: string) => verified.find(digest),
  };
}

describe('verified credentials', () => {
  test('count until their time is over, and use does not extend it', () => {
    const { clock, remember, found } = setUp({ verifiedFor: 60_000 });
    remember('d', 'A');
    clock.advance(59_999);
    expect(found('d')?.principal).toEqual(principalOf('A'));
    clock.advance(1);
    expect(found('d')).toBeUndefined();
  });

  test('count from the very first moment of a clock', () => {
    const clock = createTestClock(0);
    const verified = createVerifiedCredentials({
      table: createVerifiedTable(Buffer.alloc(32)),
      trust: trustOf({ verifiedFor: 10 }),
      users: { accounts: { get: () => 'h' } },
      clock,
    });
    verified.remember('d', principalOf('A'), 'h', 0);
    expect(verified.find('d')).toBeDefined();
    clock.advance(10);
    expect(verified.find('d')).toBeUndefined();
  });

  test('that are not remembered are not found', () => {
    expect(setUp().found('d')).toBeUndefined();
  });

  test('with a time of 0 nothing is kept', () => {
    const { verified, remember, found } = setUp({ verifiedFor: 0 });
    remember('d', 'A');
    expect(found('d')).toBeUndefined();
    expect(verified.wasRight('d')).toBe(false);
  });

  test('of a changed or removed user are out at once', () => {
    const { hashes, remember, found } = setUp();
    remember('a', 'A');
    remember('b', 'B');
    hashes.set('A', 'another hash');
    hashes.delete('B');
    expect(found('a')).toBeUndefined();
    expect(found('b')).toBeUndefined();
  });

  test('never open the account of another user with the same hash', () => {
    const { hashes, remember, found } = setUp();
    remember('a', 'A');
    hashes.set('A2', 'hash of A');
    hashes.delete('A');
    expect(found('a')).toBeUndefined();
  });

  test('whose time is over are still known to be no guess, until the user changes', () => {
    const { clock, hashes, verified, remember, found } = setUp();
    remember('a', 'A');
    clock.advance(HOUR);
    expect(found('a')).toBeUndefined();
    expect(verified.wasRight('a')).toBe(true);
    hashes.set('A', 'another hash');
    expect(verified.wasRight('a')).toBe(false);
  });

  test('of a hundred thousand users are all kept', () => {
    const verified = createVerifiedCredentials({
      table: createVerifiedTable(Buffer.alloc(32)),
      trust: trustOf(),
      users: { accounts: { get: () => 'h' } },
      clock: createTestClock(),
    });
    const names = Array.from({ length: 100_000 }, (_, n) => `user ${n}`);
    for (const name of names) verified.remember(name, principalOf(name), 'h', 1_000);
    expect(names.filter((name) => verified.find(name) === undefined)).toEqual([]);
  });

  test('are bounded', () => {
    const { remember, found } = setUp({ max: 3 });
    for (const digest of ['1', '2', '3', '4']) remember(digest, `user ${digest}`);
    expect(['1', '2', '3', '4'].filter((digest) => found(digest) !== undefined)).toHaveLength(3);
  });

  test('of one user push out no other user’s, however many headers and spellings there are', () => {
    const { remember, found, hashes } = setUp({ max: 8 });
    remember('b', 'B');
    for (const name of ['a', 'A']) {
      for (let n = 0; n < 8; n += 1) remember(`${name} ${n}`, name);
    }
    expect(hashes.has('B') && found('b')).toBeTruthy();
  });

  test('hand out principals that nobody can change', () => {
    const { remember, found } = setUp();
    remember('a', 'A');
    const login = found('a');
    expect(Object.isFrozen(login)).toBe(true);
    expect(Object.isFrozen(login?.principal)).toBe(true);
  });
});

describe('the digest of a header', () => {
  const { verified } = setUp();
  const header = basic('ADMIN', 'KYLIN');

  test('differs for every other spelling', () => {
    const spellings = [header, `${header} `, ` ${header}`, header.replace(' ', '  ')];
    spellings.push(header.toLowerCase(), basic('ADMIN', 'KYLIN '), basic('admin', 'KYLIN'), '');
    expect(new Set(spellings.map((text) => verified.digest(text))).size).toBe(spellings.length);
  });

  test('holds nothing of the header and is of no use to another process', () => {
    const other = createVerifiedCredentials({
      table: createVerifiedTable(Buffer.alloc(32, 8)),
      trust: trustOf(),
      users: { accounts: new Map() },
      clock: createTestClock(),
    });
    expect(verified.digest(header)).toBe(verified.digest(header));
    expect(verified.digest(header)).not.toBe(other.digest(header));
    expect(verified.digest(header)).toMatch(/^[\w-]{43}$/);
  });
});
