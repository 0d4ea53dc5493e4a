import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import * as fc from 'fast-check';

export const KEY = createHash('sha256').update('one').digest('base64url');
export const TOKENS = ['token of everything', 'token of the project'];

export const ENCODINGS = ['utf-8', 'utf-16le', 'utf-16be', 'iso-8859-1', 'us-ascii'] as const;

export const DESCRIPTION = {
  sessionHeader: false,
  contentType: 'text/xml',
  lifetime: 60_000,
  engineMilliseconds: 5,
  bodyLength: 7,
};

/** As an HTTP parser hands it on: Latin-1 without control characters, and without white space at its ends. */
export const headerValue = fc
  .string({
    unit: fc
      .integer({ min: 0x20, max: 0xff })
      .map((code) => (code === 0x7f ? '\t' : String.fromCodePoint(code))),
  })
  .map((text) => text.replaceAll(/^[ \t]+|[ \t]+$/g, ''));

/** A text stands for itself. */
function describe(description: object | string): Buffer {
  if (typeof description === 'string') return Buffer.from(description);
  return Buffer.from(JSON.stringify({ ...DESCRIPTION, ...description }));
}

/** A value made by hand, with a checksum that fits. */
export function value(
  changed: {
    magic?: number;
    version?: number;
    coding?: number;
    key?: string;
    marks?: number;
    description?: object | string;
    describedLength?: number;
    body?: Buffer;
  } = {},
): Buffer {
  const { description = DESCRIPTION } = changed;
  const described = describe(description);
  const head = Buffer.alloc(48);
  const marks = Buffer.concat(
    TOKENS.map((token) => createHash('sha256').update(token).digest().subarray(0, 8)),
  );
  const counted = Buffer.alloc(2);
  counted.writeUInt16BE(changed.marks ?? TOKENS.length);
  head.writeUInt32BE(changed.magic ?? 0x4d445847, 0);
  head.writeUInt8(changed.version ?? 6, 4);
  head.writeUInt8(changed.coding ?? 0, 5);
  head.writeUInt16BE(changed.describedLength ?? described.length, 6);
  head.writeBigUInt64BE(1_700_000_000_000n, 8);
  Buffer.from(changed.key ?? KEY, 'base64url').copy(head, 16);
  const rest = Buffer.concat([counted, marks, described, changed.body ?? Buffer.from('<root/>')]);
  const check = Buffer.alloc(4);
  check.writeUInt32BE(crc32(Buffer.concat([head, rest])));
  return Buffer.concat([head, check, rest]);
}
