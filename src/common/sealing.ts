import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';

/** Encrypts what goes to Redis; opens only under its context (key, engine). */
export type Sealer = ReturnType<typeof createSealer>;

export const NO_SEALER: Sealer = {
  kind: 'none',
  seal: (plain) => plain,
  open: (sealed) => sealed,
  sealText: (text) => text,
  openText: (sealed) => sealed,
};

const CIPHER = 'aes-256-gcm';
const NONCE = 12;
const TAG = 16;

/**
 * AES-256-GCM (NIST SP 800-38D) with keys from the secret by HKDF-SHA-256 (RFC 5869). Sealed bytes
 * are nonce, ciphertext, tag; sealed texts are these in base64url. `seal` draws 96 random bits for
 * a message: seal at most 2^32 under one secret. `sealText` makes its nonce by HMAC-SHA-256 of
 * context and text, so that Redis can compare.
 * @param secret of 128 random bits or more, as it is not stretched
 */
export function createSealer(secret: string) {
  const sealKey = derivedKey(secret, 'seal');
  const textKey = derivedKey(secret, 'seal text');
  const nonceKey = derivedKey(secret, 'nonce of a text');

  function textNonce(text: string, context: string): Buffer {
    // Its length in front keeps pairs of context and text apart.
    const length = Buffer.alloc(4);
    length.writeUInt32BE(Buffer.byteLength(context));
    const mac = createHmac('sha256', nonceKey).update(length).update(context).update(text);
    return mac.digest().subarray(0, NONCE);
  }

  return {
    kind: CIPHER as typeof CIPHER | 'none',
    seal: (plain: Buffer, context: Buffer | string) =>
      encrypt(sealKey, randomBytes(NONCE), plain, context),
    /** Undefined where key or context differ, or it was changed or never sealed. */
    open: (sealed: Buffer, context: Buffer | string) => decrypt(sealKey, sealed, context),
    /** Equal texts of one context become equal. */
    sealText(text: string, context: string): string {
      if (!text.isWellFormed()) throw new RangeError('half a surrogate pair has no UTF-8');
      const sealed = encrypt(textKey, textNonce(text, context), Buffer.from(text), context);
      return sealed.toString('base64url');
    },
    openText(sealed: string, context: string): string | undefined {
      const bytes = Buffer.from(sealed, 'base64url');
      // The decoder skips unknown letters, so several texts would mean these bytes.
      if (bytes.toString('base64url') !== sealed) return undefined;
      return decrypt(textKey, bytes, context)?.toString();
    },
  };
}

const derivedKey = (secret: string, purpose: string): Buffer =>
  Buffer.from(hkdfSync('sha256', secret, '', `mdx-gateway redis: ${purpose}`, 32));

function encrypt(key: Buffer, nonce: Buffer, plain: Buffer, context: Buffer | string): Buffer {
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG });
  cipher.setAAD(Buffer.from(context));
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key: Buffer, sealed: Buffer, context: Buffer | string): Buffer | undefined {
  if (sealed.length < NONCE + TAG) return undefined;
  const nonce = sealed.subarray(0, NONCE);
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG });
  decipher.setAAD(Buffer.from(context));
  decipher.setAuthTag(sealed.subarray(-TAG));
  const plain = decipher.update(sealed.subarray(NONCE, -TAG));
  try {
    decipher.final();
    return plain;
  } catch {
    return undefined;
  }
}
