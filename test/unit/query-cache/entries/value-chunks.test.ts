import { describe, expect, test } from '@jest/globals';
import { createHash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { encodeEntry } from '../../../../src/query-cache/entries/entry-codec.ts';
import { readHead, writeManifest } from '../../../../src/query-cache/entries/entry-layout.ts';
import {
  CHUNK,
  createValueChunks,
  type Gathered,
} from '../../../../src/query-cache/entries/value-chunks.ts';
import { createSealer, NO_SEALER } from '../../../../src/sealing.ts';
import { checkpoint, fakeTier, quiet, storedAnswer, type FakeTier } from '../fakes.ts';

const KEY = createHash('sha256').update('one').digest('base64url');
const OTHER_KEY = createHash('sha256').update('two').digest('base64url');
const MAX_ENTRY = 8 * 1024 * 1024;
const LIFETIME = 60_000;

/** An entry of so many bytes. */
async function entryOf(length: number, sealer = NO_SEALER): Promise<Buffer> {
  const made = (size: number) =>
    encodeEntry(KEY, storedAnswer({ body: randomBytes(size) }), ['a', 'b'], sealer);
  const beside = (await made(length)).length - length;
  const entry = await made(length - beside);
  expect(entry.length).toBe(length);
  return entry;
}

function chunksIn(tier: FakeTier, maxEntry = MAX_ENTRY) {
  return createValueChunks({ values: tier, maxEntry, newFill: () => randomBytes(16) });
}

async function laid(length: number, sealer = NO_SEALER) {
  const tier = fakeTier();
  const chunks = chunksIn(tier);
  const entry = await entryOf(length, sealer);
  const manifest = await chunks.lay(entry, () => LIFETIME);
  return { tier, chunks, entry, manifest };
}

/** Compared as bytes: element by element takes a while. */
function isWhole(gathered: Gathered, entry: Buffer): boolean {
  return gathered.ok && gathered.value.equals(entry);
}

/** Why it is a miss. */
const refusal = (gathered: Gathered) => (gathered.ok ? 'it is none' : gathered.why);

/** The manifest with other bytes at that place, and a checksum that fits. */
function changed(manifest: Buffer, change: (copy: Buffer, directory: number) => void): Buffer {
  const copy = Buffer.from(manifest);
  const head = readHead(copy);
  if (typeof head === 'string') throw new Error(head);
  change(copy, head.length);
  copy.writeUInt32BE(crc32(copy.subarray(52), crc32(copy.subarray(0, 48))), 48);
  return copy;
}

describe('a long entry', () => {
  test.each([
    ['of one chunk and a byte', CHUNK + 1, 2],
    ['of two chunks but a byte', 2 * CHUNK - 1, 2],
    ['of two chunks', 2 * CHUNK, 2],
    ['of two chunks and a byte', 2 * CHUNK + 1, 3],
    ['of many', 7 * CHUNK + 123, 8],
  ])('is laid in chunks and gathered again: %s', async (_what, length, count) => {
    const { tier, chunks, entry, manifest } = await laid(length);
    expect(tier.chunks.size).toBe(count);
    expect(Math.max(...[...tier.chunks.values()].map((one) => one.length))).toBe(CHUNK);
    expect(manifest.length).toBeLessThan(500);
    expect(isWhole(await chunks.gather(KEY, manifest), entry)).toBe(true);
  });

  test('that fits one chunk stays whole', async () => {
    const { tier, chunks, entry, manifest } = await laid(CHUNK);
    expect(tier.chunks.size).toBe(0);
    expect(manifest).toBe(entry);
    expect(isWhole(await chunks.gather(KEY, entry), entry)).toBe(true);
  });

  test('leaves to its manifest the moment and the marks, and the rest to the chunks', async () => {
    const { entry, manifest } = await laid(2 * CHUNK);
    expect(manifest.subarray(4, 48)).toEqual(entry.subarray(4, 48));
    expect(manifest.readUInt32BE(0)).not.toBe(entry.readUInt32BE(0));
    expect(readHead(manifest)).toMatchObject({ ...(readHead(entry) as object), kind: 'manifest' });
  });

  test('is sealed as a whole before it is cut: no chunk shows anything', async () => {
    const tier = fakeTier();
    const chunks = chunksIn(tier);
    const body = Buffer.concat([Buffer.from('the figures of alice'), randomBytes(2 * CHUNK)]);
    const sealer = createSealer('a secret of more than thirty-two letters');
    const entry = await encodeEntry(KEY, storedAnswer({ body }), ['a'], sealer);
    const manifest = await chunks.lay(entry, () => LIFETIME);
    const all = [manifest, ...tier.chunks.values()];
    expect(all.length).toBe(4);
    for (const bytes of all) expect(bytes.includes('figures')).toBe(false);
    expect(isWhole(await chunks.gather(KEY, manifest), entry)).toBe(true);
  });

  test('gets names of its own with every fill, so that two never mix', async () => {
    const tier = fakeTier();
    const chunks = chunksIn(tier);
    const [one, other] = await Promise.all([entryOf(2 * CHUNK), entryOf(2 * CHUNK)]);
    const [first, second] = await Promise.all([
      chunks.lay(one, () => LIFETIME),
      chunks.lay(other, () => LIFETIME),
    ]);
    expect(tier.chunks.size).toBe(4);
    expect(isWhole(await chunks.gather(KEY, first), one)).toBe(true);
    expect(isWhole(await chunks.gather(KEY, second), other)).toBe(true);
  });

  test('is not laid when a chunk cannot be written', async () => {
    const tier = fakeTier();
    let writes = 0;
    tier.beforeSetChunk = async () => {
      writes += 1;
      if (writes === 3) throw new Error('Redis is away');
    };
    const laying = chunksIn(tier).lay(await entryOf(8 * CHUNK), () => LIFETIME);
    await expect(laying).rejects.toThrow('Redis is away');
    expect(writes).toBe(3);
  });

  test('writes one chunk after the other, each to outlive its manifest', async () => {
    const tier = fakeTier();
    const lifetimes: number[] = [];
    let left = LIFETIME;
    let inside = 0;
    const slow: FakeTier = {
      ...tier,
      async setChunk(_fill, _index, _chunk, lifetime) {
        inside += 1;
        expect(inside).toBe(1);
        lifetimes.push(lifetime);
        await quiet();
        left -= 1_000;
        inside -= 1;
      },
    };
    await chunksIn(slow).lay(await entryOf(3 * CHUNK), () => left);
    // The manifest comes last: its time is what is left then.
    expect(lifetimes).toEqual([120_000, 119_000, 118_000]);
    for (const [i, lifetime] of lifetimes.entries()) {
      expect(lifetime - (lifetimes.length - i) * 1_000).toBeGreaterThan(left);
    }
  });

  test('is asked for a few chunks at a time', async () => {
    const { tier, chunks, manifest } = await laid(12 * CHUNK);
    const held = checkpoint();
    let inside = 0;
    tier.beforeGetChunk = async () => {
      inside += 1;
      await held.arrive();
    };
    const gathering = chunks.gather(KEY, manifest);
    await held.arrived;
    await quiet();
    expect(inside).toBe(4);
    held.release();
    expect(await gathering).toMatchObject({ ok: true });
    expect(inside).toBe(12);
  });
});

describe('a manifest', () => {
  test.each([0, 3, 6])('is a miss without chunk %i', async (index) => {
    const { tier, chunks, manifest } = await laid(6 * CHUNK + 1);
    const name = [...tier.chunks.keys()][index] ?? '';
    tier.chunks.delete(name);
    expect(refusal(await chunks.gather(KEY, manifest))).toBe('a chunk is missing');
  });

  test('is a miss with a chunk of another length, or of other bytes', async () => {
    const { tier, chunks, manifest } = await laid(2 * CHUNK + 1);
    for (const [name, chunk] of [...tier.chunks]) {
      const longer = Buffer.concat([chunk, Buffer.of(0)]);
      for (const other of [longer, chunk.subarray(1), Buffer.of()]) {
        tier.chunks.set(name, other);
        const why = 'a chunk of another length';
        expect(refusal(await chunks.gather(KEY, manifest))).toBe(why);
      }
      const spoilt = Buffer.from(chunk);
      const at = Math.floor(chunk.length / 2);
      spoilt.writeUInt8(spoilt.readUInt8(at) ^ 1, at);
      tier.chunks.set(name, spoilt);
      const why = 'wrong checksum of a chunk';
      expect(refusal(await chunks.gather(KEY, manifest))).toBe(why);
      tier.chunks.set(name, chunk);
    }
    expect(await chunks.gather(KEY, manifest)).toMatchObject({ ok: true });
  });

  test('is a miss with its chunks in another order', async () => {
    const { tier, chunks, manifest } = await laid(2 * CHUNK);
    const [[first, one], [second, other]] = [...tier.chunks] as [
      [string, Buffer],
      [string, Buffer],
    ];
    tier.chunks.set(first, other).set(second, one);
    const why = 'wrong checksum of a chunk';
    expect(refusal(await chunks.gather(KEY, manifest))).toBe(why);
  });

  test('of another key is a miss', async () => {
    const { chunks, manifest } = await laid(2 * CHUNK);
    expect(refusal(await chunks.gather(OTHER_KEY, manifest))).toBe('another key');
  });

  test('is a miss when any one byte is another, or it was cut', async () => {
    const { tier, chunks, manifest } = await laid(2 * CHUNK);
    let asked = 0;
    tier.beforeGetChunk = async () => void (asked += 1);
    for (let at = 0; at < manifest.length; at += 1) {
      for (const flip of [1, 0x80]) {
        const spoilt = Buffer.from(manifest);
        spoilt.writeUInt8(spoilt.readUInt8(at) ^ flip, at);
        const gathered = await chunks.gather(KEY, spoilt);
        // Where it is no manifest any more it is handed on, and whoever decodes it refuses it by its first bytes.
        if (gathered.ok) expect(typeof readHead(spoilt)).toBe('string');
      }
      const cut = manifest.subarray(0, at);
      const gathered = await chunks.gather(KEY, cut);
      if (gathered.ok) expect(typeof readHead(cut)).toBe('string');
    }
    expect(asked).toBe(0);
  });

  const directory = (offset: number, bytes: number, number: number) => (manifest: Buffer) =>
    changed(manifest, (copy, at) => copy.writeUIntBE(number, at + offset, bytes));
  test.each([
    ['a length beyond cache.max_entry', directory(16, 6, 2 ** 47), 'larger than cache.max_entry'],
    ['no length', directory(16, 6, 0), 'unreadable manifest'],
    ['a length of other chunks', directory(16, 6, 3 * CHUNK), 'unreadable manifest'],
    ['chunks of no length', directory(22, 4, 0), 'unreadable manifest'],
    ['tiny chunks', directory(22, 4, 1), 'unreadable manifest'],
    ['huge chunks', directory(22, 4, 2 ** 32 - 1), 'unreadable manifest'],
    ['no directory', (manifest: Buffer) => manifest.subarray(0, 80), 'wrong checksum'],
  ])('with %s is a miss, before anything is asked for', async (_what, change, why) => {
    const { tier, chunks, manifest } = await laid(2 * CHUNK);
    let asked = 0;
    tier.beforeGetChunk = async () => void (asked += 1);
    expect(refusal(await chunks.gather(KEY, change(manifest)))).toBe(why);
    expect(asked).toBe(0);
  });

  test('with an absurd number of chunks is a miss, before there is memory for them', async () => {
    const entry = await entryOf(2 * CHUNK);
    const sums = Array.from({ length: 100_000 }, () => 0);
    const manifest = changed(
      writeManifest(entry, { fill: randomBytes(16), chunk: 64 * 1024, sums }),
      (copy, at) => copy.writeUIntBE(100_000 * 64 * 1024, at + 16, 6),
    );
    const why = 'larger than cache.max_entry';
    expect(refusal(await chunksIn(fakeTier()).gather(KEY, manifest))).toBe(why);
  });

  test('fails when tier 2 cannot say, and asks for no more', async () => {
    const { tier, chunks, manifest } = await laid(12 * CHUNK);
    let asked = 0;
    tier.beforeGetChunk = async () => {
      asked += 1;
      if (asked === 2) throw new Error('Command timed out');
    };
    await expect(chunks.gather(KEY, manifest)).rejects.toThrow('timed out');
    await quiet();
    expect(asked).toBeLessThanOrEqual(4);
  });
});
