import { crc32 } from 'node:zlib';
import {
  chunksOf,
  isWhole,
  readDirectory,
  readHead,
  readSums,
  writeManifest,
  type Directory,
} from './entry-layout.ts';
import type { ValueTier } from './value-tier.ts';

/**
 * Entries above this size are kept in chunks of it (bytes): Redis does one thing at a time, and so does a connection,
 * so that one long value would hold up all others. See docs/REDIS.md for what was measured.
 */
export const CHUNK = 512 * 1024;
/** A manifest that speaks of smaller chunks is none of ours; it would have us ask for each (bytes). */
const MIN_CHUNK = 64 * 1024;
/** So many chunks of one entry are asked for at one time. */
const AT_ONE_TIME = 4;
/** For so long chunks outlive their manifest, so that no manifest is without them at its end (ms). */
const OUTLIVES = 60_000;
/** What an entry is longer than its body at most: head, description, seal (bytes). */
const MOST_BESIDE_BODY = 128 * 1024;

export type Gathered =
  | { readonly ok: true; readonly value: Buffer }
  /** `why` is for log and metrics; the entry is a miss. */
  | { readonly ok: false; readonly why: string };

/** Long entries in chunks, with a manifest under their key that is written last. */
export interface ValueChunks {
  /**
   * Writes the chunks of an entry that is long.
   * @param lifetime milliseconds for which its key will be kept, asked for each chunk
   * @returns what belongs under its key: the manifest, or the entry itself
   * @throws when a chunk was not written
   */
  lay(entry: Buffer, lifetime: () => number): Promise<Buffer>;
  /**
   * The entry of which this lay under its key: that itself, unless it is a manifest.
   * @param take told how many bytes are needed for that, before they are; what it throws ends it
   * @throws when tier 2 cannot say
   */
  gather(key: string, found: Buffer, take?: (bytes: number) => void): Promise<Gathered>;
}

export function createValueChunks(options: {
  values: Pick<ValueTier, 'getChunk' | 'setChunk'>;
  /** Bytes of the longest body. */
  maxEntry: number;
  /** 16 random bytes. */
  newFill: () => Buffer;
}): ValueChunks {
  const { values } = options;

  return {
    async lay(entry, lifetime) {
      if (entry.length <= CHUNK) return entry;
      const fill = options.newFill();
      const name = fill.toString('base64url');
      const sums: number[] = [];
      for (const chunk of cut(entry)) {
        await values.setChunk(name, sums.length, chunk, lifetime() + OUTLIVES);
        sums.push(crc32(chunk));
      }
      return writeManifest(entry, { fill, chunk: CHUNK, sums });
    },

    async gather(key, found, take) {
      const head = readHead(found);
      if (typeof head === 'string' || head.kind === 'entry') return { ok: true, value: found };
      if (head.key !== key) return refused('another key');
      if (!isWhole(found)) return refused('wrong checksum');
      const directory = readDirectory(found, head);
      const sums = readSums(found, head);
      if (directory === undefined) return refused('unreadable manifest');
      if (directory.total > options.maxEntry + MOST_BESIDE_BODY)
        return refused('larger than cache.max_entry');
      if (directory.chunk < MIN_CHUNK || sums.length !== chunksOf(directory))
        return refused('unreadable manifest');
      take?.(directory.total);
      return gatherAll(directory, sums);
    },
  };

  /** Nothing is handed on before all of it is there and checked. */
  async function gatherAll(
    { fill, total, chunk }: Directory,
    sums: readonly number[],
  ): Promise<Gathered> {
    const value = Buffer.allocUnsafe(total);
    const left = sums.entries();
    let why: string | undefined;

    async function gatherSome(): Promise<void> {
      // One iterator for all who gather, so that each chunk is asked for once.
      for (const [index, sum] of left) {
        const at = index * chunk;
        const found = await values.getChunk(fill, index).catch((error: unknown) => {
          // The others need not go on.
          why = 'a chunk is missing';
          throw error;
        });
        why ??= wrongChunk(found, Math.min(chunk, total - at), sum);
        if (why !== undefined) return;
        found?.copy(value, at);
      }
    }

    await Promise.all(Array.from({ length: AT_ONE_TIME }, gatherSome));
    return why === undefined ? { ok: true, value } : refused(why);
  }
}

function wrongChunk(chunk: Buffer | undefined, length: number, sum: number): string | undefined {
  if (chunk === undefined) return 'a chunk is missing';
  if (chunk.length !== length) return 'a chunk of another length';
  return crc32(chunk) === sum ? undefined : 'wrong checksum of a chunk';
}

function* cut(entry: Buffer): Generator<Buffer> {
  for (let at = 0; at < entry.length; at += CHUNK) yield entry.subarray(at, at + CHUNK);
}

function refused(why: string): Gathered {
  return { ok: false, why };
}
