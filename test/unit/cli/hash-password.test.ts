import { describe, expect, test } from '@jest/globals';
import bcrypt from 'bcrypt';
import * as fc from 'fast-check';
import { Readable } from 'node:stream';
import { hashPassword } from '../../../src/cli/hash-password.ts';
import { codePoint } from '../../support/code-point.ts';

const HASH = '.'.repeat(53);

/** A made-up hash that shows what was hashed, in the form of bcrypt's. */
const fakeHash = (password: string, cost: number) =>
  Promise.resolve(`$2b$${cost}$${JSON.stringify(password)}`);

interface Terminal {
  readonly keys: readonly (string | Uint8Array)[];
  readonly isTerminal: boolean;
}

/** Runs the command over made-up streams and tells all that went out. */
async function run(name: string | undefined, { keys, isTerminal }: Terminal, hash = fakeHash) {
  const written: string[] = [];
  const asked: string[] = [];
  const rawModes: boolean[] = [];
  const status = await hashPassword(name, {
    input: Object.assign(Readable.from(keys), {
      isTTY: isTerminal,
      setRawMode: (mode: boolean) => rawModes.push(mode),
    }),
    output: { write: (text) => written.push(text) },
    prompts: { write: (text) => asked.push(text) },
    hash,
  });
  return { status, output: written.join(''), asked: asked.join(''), rawModes };
}

const type = (...keys: readonly (string | Uint8Array)[]) => ({ keys, isTerminal: true });
const pipe = (...keys: readonly (string | Uint8Array)[]) => ({ keys, isTerminal: false });

const PROMPTS = 'Password: \nThe same password again: \n';

describe('from a terminal', () => {
  test('the password is asked for twice, never shown, and becomes a line of the users file', async () => {
    expect(await run('ADMIN', type('secret\r', 'secret\r'))).toEqual({
      status: 0,
      output: 'ADMIN:$2y$10$"secret"\n',
      asked: PROMPTS,
      rawModes: [true, false],
    });
  });

  test.each([
    ['key by key', ['s', 'e', 'c', '\r', 's', 'e', 'c', '\r'], 'sec'],
    ['both lines at once', ['sec\nsec\n'], 'sec'],
    ['a slip of the finger', ['sex\u007fc\r', 'ssec\b\b\b\bsec\r'], 'sec'],
    ['a line begun anew', ['wrong\u0015sec\r', 'sec\r'], 'sec'],
    ['an emoji taken back as one', ['sec🔑\u007f\r', 'sec\r'], 'sec'],
  ])('%s', async (_, keys, password) => {
    const { status, output } = await run(undefined, type(...keys));
    expect([status, output]).toEqual([0, `$2y$10$${JSON.stringify(password)}\n`]);
  });

  test('a letter may arrive in halves', async () => {
    const bytes = Buffer.from('grün\rgrün\r');
    const { output } = await run('A', type(...[...bytes].map((byte) => Uint8Array.of(byte))));
    expect(output).toBe('A:$2y$10$"grün"\n');
  });

  test.each([
    ['two different ones', ['one\r', 'two\r'], 'the two passwords are not the same'],
    ['Ctrl-C', ['one\u0003'], 'cancelled'],
    ['Ctrl-D at the second', ['one\r', '\u0004'], 'cancelled'],
    ['a terminal that goes away', ['one'], 'cancelled'],
    ['nothing', ['\r\r'], 'the password is empty'],
    [
      'a tab',
      ['a\tb\ra\tb\r'],
      'the password must not hold control characters, such as NUL or a tab',
    ],
    [
      'another encoding',
      [Uint8Array.of(0xe9, 0x0d, 0xe9, 0x0d)],
      'the password must be UTF-8 text',
    ],
  ])('%s: nothing is written, the terminal is put back', async (_, keys, reason) => {
    const { status, output, asked, rawModes } = await run('A', type(...keys));
    expect([status, output, rawModes]).toEqual([1, '', [true, false]]);
    expect(asked.endsWith(`\nmdx-gateway hash-password: ${reason}\n`)).toBe(true);
  });

  test('the terminal is put back when reading fails', async () => {
    const rawModes: boolean[] = [];
    const broken = hashPassword('A', {
      input: Object.assign(
        new Readable({
          read() {
            this.destroy(new Error('EIO'));
          },
        }),
        { isTTY: true, setRawMode: (mode: boolean) => rawModes.push(mode) },
      ),
      output: { write: () => undefined },
      prompts: { write: () => undefined },
      hash: fakeHash,
    });
    await expect(broken).rejects.toThrow('EIO');
    expect(rawModes).toEqual([true, false]);
  });
});

describe('from a pipe', () => {
  test.each([
    ['a line', ['secret\n'], 'secret'],
    ['a line of Windows', ['secret\r\n'], 'secret'],
    ['a line without its end', ['sec', 'ret'], 'secret'],
    ['spaces that belong to it', ['  se cret \n'], '  se cret '],
    ['a letter in halves', [Uint8Array.of(0xc3), Uint8Array.of(0xbc)], 'ü'],
    ['72 bytes', ['ü'.repeat(36)], 'ü'.repeat(36)],
  ])('%s is the password, and nothing is asked', async (_, parts, password) => {
    expect(await run('A', pipe(...parts))).toEqual({
      status: 0,
      output: `A:$2y$10$${JSON.stringify(password)}\n`,
      asked: '',
      rawModes: [],
    });
  });

  test.each([
    ['nothing', [], 'the password is empty'],
    ['an empty line', ['\n'], 'the password is empty'],
    ['two lines', ['one\ntwo\n'], 'standard input must hold one line, the password'],
    ['NUL', ['a\0b'], 'the password must not hold control characters, such as NUL or a tab'],
    [
      '73 bytes in 37 letters',
      [`${'ü'.repeat(36)}x`],
      'the password has 73 bytes; bcrypt reads no more than 72, and the rest would not count',
    ],
    ['a whole file', ['x'.repeat(5000)], 'the password is far too long'],
    ['another encoding', [Uint8Array.of(0xe9)], 'the password must be UTF-8 text'],
  ])('%s is refused with the reason', async (_, parts, reason) => {
    expect(await run('A', pipe(...parts))).toEqual({
      status: 1,
      output: '',
      asked: `mdx-gateway hash-password: ${reason}\n`,
      rawModes: [],
    });
  });

  test('no complaint shows the password', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: codePoint, maxLength: 60 }), async (rest) => {
        const { status, asked } = await run('A', pipe(`QQZZ${rest}`));
        expect(status === 0 || asked !== '').toBe(true);
        expect(asked).not.toContain('QQZZ');
      }),
    );
  });
});

test.each(['', 'a:b', 'a\nb', '#a', ' a', 'a\0', 'ü'.repeat(128)])(
  'the name %j is refused before anything is asked, because it would break the users file',
  async (name) => {
    const { status, output, asked } = await run(name, type('secret\rsecret\r'));
    expect([status, output]).toEqual([1, '']);
    expect(asked).toBe(
      'mdx-gateway hash-password: NAME must be a user name: 1 to 255 bytes without colon and control characters, no white space at either end, not beginning with #\n',
    );
  },
);

test('a hash that is already called $2y$ stays as it is', async () => {
  const { output } = await run('A', pipe('x'), () => Promise.resolve(`$2y$10$${HASH}`));
  expect(output).toBe(`A:$2y$10$${HASH}\n`);
});

test('the line is of the form of htpasswd -B, and its hash knows the password', async () => {
  const { output } = await run('ADMIN', pipe('KYLIN\n'), bcrypt.hash);
  const [name, hash = ''] = output.trimEnd().split(':');
  expect(name).toBe('ADMIN');
  expect(hash).toMatch(/^\$2y\$10\$[./A-Za-z0-9]{53}$/);
  const verify = (password: string) => bcrypt.compare(password, hash.replace('$2y$', '$2b$'));
  expect(await verify('KYLIN')).toBe(true);
  expect(await verify('kylin')).toBe(false);
});
