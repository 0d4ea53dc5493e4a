/**
 * The memory tier in the place of its module, for a gateway that the probe is loaded into: it can be filled with copies
 * of its latest entry, as days of traffic would fill it.
 */

import { createMemoryTier as create, type MemoryTier } from '../../src/cache/memory-tier.ts';

export * from '../../src/cache/memory-tier.ts';

let made: MemoryTier | undefined;

export function createMemoryTier(...given: Parameters<typeof create>): MemoryTier {
  return (made = create(...given));
}

/** @returns entries in memory afterwards */
export function fillMemory(entries: number): number {
  const [latest] = made?.peekRecent(1) ?? [];
  if (made === undefined || latest === undefined) throw new Error('there is nothing to copy');
  const { answer, digests } = latest;
  for (let at = 0; at < entries; at += 1) {
    const name = String(at).padStart(20, '-');
    const own = { ...answer, body: Buffer.from(answer.body as Buffer) };
    made.set(`${'k'.repeat(23)}${name}`, own, `${digests.slice(0, -name.length)}${name}`, 'usual');
  }
  return made.usage().entries;
}
