import { tagMemory, type TagMemory } from './known-tags.ts';
import { bindings, type Bindings } from './xml-bindings.ts';
import { nameTable } from './xml-names.ts';
import { tagReader, type TagReader } from './xml-tag.ts';

/** What a scanner learns: names, tags, and for what prefixes stood. Of one document at a time. */
export interface ScannerMemory {
  readonly bound: Bindings;
  readonly reader: TagReader;
  readonly tags: TagMemory;
}

/** Memories that go from one document to the next. */
export interface ScannerMemories {
  take(): ScannerMemory;
  /** After a whole document; that of another one is not to be given back. */
  giveBack(memory: ScannerMemory): void;
}

/** So many wait for a document; more are needed only while more answers come at one time. */
const MOST_WAITING = 4;

/** @param flagOf asked once for each name about its local part; always says the same */
export function newScannerMemory(flagOf: (local: string) => number): ScannerMemory {
  const bound = bindings();
  return { bound, reader: tagReader(nameTable(flagOf), bound), tags: tagMemory() };
}

/**
 * What was learnt of one answer is known in the next: to learn the few dozen names and tags of an answer of 2 KB took
 * four fifths of its inspection. A memory that has learnt much is given up, so that all of them stay small.
 *
 * @param flagOf as of `newScannerMemory`; and every sink that uses them must say the same of the same tag
 */
export function scannerMemories(flagOf: (local: string) => number): ScannerMemories {
  const waiting: ScannerMemory[] = [];
  return {
    take() {
      const memory = waiting.pop();
      if (memory === undefined) return newScannerMemory(flagOf);
      memory.tags.nextDocument();
      memory.reader.nextDocument();
      return memory;
    },
    giveBack(memory) {
      const small = memory.tags.isSmall() && memory.reader.isSmall() && memory.bound.isSmall();
      if (small && waiting.length < MOST_WAITING) waiting.push(memory);
    },
  };
}
