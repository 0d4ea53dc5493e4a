import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { parseUsers, UsersFileError } from '../../../src/auth/users-file.ts';
import { HASHES } from './support.ts';

const parse = (text: string) => parseUsers(Buffer.from(text), '/etc/users');
const hashesOf = async (text: string) =>
  [...(await parse(text)).accounts].map(([name, { hash }]) => [name, hash]);

async function problemOf(bytes: Uint8Array): Promise<string> {
  try {
    await parseUsers(bytes, '/etc/users');
  } catch (error) {
    if (error instanceof UsersFileError) return error.message;
    throw error;
  }
  throw new Error('the file was taken');
}

describe('a users file', () => {
  test('may hold comments, blank lines, CRLF, a byte order mark and no last line end', async () => {
    const text = `\ufeff# users\r\n\r\nADMIN:${HASHES.kylin}\r\n  # more\n \t\nANALYST:${HASHES.fastCars} `;
    expect(await hashesOf(text)).toEqual([
      ['ADMIN', HASHES.kylin],
      ['ANALYST', HASHES.fastCars],
    ]);
  });

  test('keeps names as spelt', async () => {
    const names = ['José', 'Jose\u0301', 'josé', 'a b', '__proto__', 'ＡＤＭＩＮ', 'ADMIN', '$2y$'];
    const { accounts } = await parse(names.map((name) => `${name}:${HASHES.kylin}`).join('\n'));
    expect([...accounts.keys()]).toEqual(names);
    expect(accounts.get('toString')).toBeUndefined();
  });

  test.each([
    ['the line lacks a colon', HASHES.kylin, 'line 1: there is no colon'],
    ['the name is empty', `:${HASHES.kylin}`, 'line 1: the user name is empty'],
    [
      'the name ends with a space',
      `ADMIN :${HASHES.kylin}`,
      'line 1: the user name begins or ends',
    ],
    [
      'the name ends with NBSP',
      `ADMIN\u00a0:${HASHES.kylin}`,
      'line 1: the user name begins or ends',
    ],
    ['the name holds a tab', `A\tB:${HASHES.kylin}`, 'line 1: the user name holds a control'],
    ['the name holds a NUL', `A\0:${HASHES.kylin}`, 'line 1: the user name holds a control'],
    ['the name is huge', `${'ä'.repeat(128)}:${HASHES.kylin}`, 'line 1: the user name is longer'],
    ['the hash is missing', 'ADMIN:', 'line 1: the hash is not bcrypt'],
    ['the password is plain', '# x\n\nADMIN:secret', 'line 3: the hash is not bcrypt'],
    ['the hash is MD5', 'ADMIN:$apr1$SFtxQwZk$4VTCk5jE6hmEYFr8RUmAY0', 'line 1: the hash is not'],
    [
      'the hash is SHA',
      'ADMIN:{SHA}0DPiKuNIrrVmD8IUCuw1hQxNqZc=',
      'line 1: the hash is not bcrypt',
    ],
    ['the hash is $2x$', `A:${HASHES.kylin.replace('2y', '2x')}`, 'line 1: the hash is not bcrypt'],
    ['the hash is cut', `A:${HASHES.kylin.slice(0, -1)}`, 'line 1: the bcrypt hash is damaged'],
    ['something follows the hash', `A:${HASHES.kylin}:x`, 'line 1: the bcrypt hash is damaged'],
    [
      'the cost is too high',
      `A:${HASHES.kylin.replace('04', '16')}`,
      'cost of the hash is above 15',
    ],
    ['the cost is too low', `A:${HASHES.kylin.replace('04', '03')}`, 'cost of the hash is below 4'],
    [
      'a name stands twice',
      `A:${HASHES.a}\nB:${HASHES.b}\nA:${HASHES.b}`,
      'line 3: the user of line 1',
    ],
    ['there is nothing', '', 'it holds no user'],
    ['there are only comments', '# a\n#b:c\n', 'it holds no user'],
    ['lines end with CR', `A:${HASHES.a}\rB:${HASHES.b}`, 'line 1: the bcrypt hash is damaged'],
  ])('is refused when %s', async (_case, text, problem) => {
    expect(await problemOf(Buffer.from(text))).toContain(problem);
  });

  test.each([
    ['ISO-8859-1', Buffer.from(`Jos\xe9:${HASHES.kylin}`, 'latin1')],
    ['UTF-16', Buffer.from(`\ufeffADMIN:${HASHES.kylin}`, 'utf16le')],
  ])('is refused in %s', async (_encoding, bytes) => {
    expect(await problemOf(bytes)).toContain('it is not UTF-8 text');
  });

  test('is refused with the way to make a right line, and without anything it holds', async () => {
    const message = await problemOf(Buffer.from('ADMIN:hunter2\nhunter3\nhunter4:$1$abc$def'));
    expect(message).toContain('users file /etc/users: line 1');
    expect(message).toContain('line 2');
    expect(message).toContain('line 3');
    expect(message).toContain('htpasswd -B -C 10 /etc/users NAME');
    expect(message).not.toMatch(/hunter|ADMIN|abc|def/);
  });

  test('with a thousand problems names ten', async () => {
    const message = await problemOf(Buffer.from('x\n'.repeat(1000)));
    expect(message.match(/line \d+/g)).toHaveLength(10);
    expect(message).toContain('and 990 more');
  });

  test('is not half taken: one bad line refuses all', async () => {
    expect(await problemOf(Buffer.from(`ADMIN:${HASHES.kylin}\nANALYST:x`))).toContain('line 2');
  });

  test.each([
    ['letter case', 'Admin', 'ADMIN'],
    ['Unicode form', 'José', 'Jose\u0301'],
    ['width', 'ADMIN', 'ＡＤＭＩＮ'],
    ['sharp s', 'STRASSE', 'straße'],
  ])('is taken with a warning when two names differ only in %s', async (_case, one, other) => {
    const text = `${one}:${HASHES.a}\nX:${HASHES.a}\n${other}:${HASHES.b}`;
    const { accounts, lookAlikes, warnings } = await parse(text);
    expect(accounts.size).toBe(3);
    expect(lookAlikes).toEqual(new Set([one, other]));
    expect(warnings).toEqual([expect.stringContaining('lines 1 and 3')]);
  });

  test('gives the cost that most hashes have, and warns when they differ', async () => {
    const { commonCost, warnings } = await parse(`A:${HASHES.slow}\nB:${HASHES.a}\nC:${HASHES.b}`);
    expect(commonCost).toBe(4);
    expect(warnings).toEqual([expect.stringContaining('(4, 6)')]);
    expect((await parse(`A:${HASHES.a}\nB:${HASHES.slow}`)).commonCost).toBe(6);
    expect((await parse(`A:${HASHES.a}`)).warnings).toEqual([]);
  });

  test('of many lines is read with no more than 500 of them in one turn of the event loop', async () => {
    const text = Array.from({ length: 2_600 }, (_, at) => `USER${at}:${HASHES.a}\n`).join('');
    const inTurn = [0];
    /** Asked once for each line. */
    class Counted extends Map<string, { readonly hash: string }> {
      override get(name: string) {
        inTurn[inTurn.length - 1] = (inTurn.at(-1) ?? 0) + 1;
        return super.get(name);
      }
    }
    let isOver = false;
    const nextTurn = () => {
      inTurn.push(0);
      if (!isOver) setImmediate(nextTurn);
    };
    setImmediate(nextTurn);
    const { accounts } = await parseUsers(Buffer.from(text), 'f', new Counted());
    isOver = true;
    expect(accounts.size).toBe(2_600);
    expect(Math.max(...inTurn)).toBeLessThanOrEqual(500);
  });

  test('of any bytes is taken or refused with a UsersFileError, nothing else', async () => {
    const near = fc
      .array(
        fc.oneof(
          fc.string(),
          fc.constant(`A:${HASHES.a}`),
          fc.string().map((n) => `${n}:${HASHES.b}`),
        ),
      )
      .map((lines) => Buffer.from(lines.join('\n')));
    await fc.assert(
      fc.asyncProperty(fc.oneof(near, fc.uint8Array()), async (bytes) => {
        try {
          expect((await parseUsers(bytes, 'f')).accounts.size).toBeGreaterThan(0);
        } catch (error) {
          expect(error).toBeInstanceOf(UsersFileError);
        }
      }),
    );
  });
});
