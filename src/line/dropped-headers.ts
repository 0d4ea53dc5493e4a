import type { IncomingHttpHeaders } from 'node:http';
import type { Emit } from '../common/events.ts';
import { isUsual, whyNotNamed } from '../common/header-names.ts';

/** Limits of names and of each name (characters), since clients choose them. */
const MOST = 50;
const LONGEST = 64;

export type DroppedHeaders = ReturnType<typeof createDroppedHeaders>;

/**
 * Warns once of each header that an engine might answer by and is not sent, as `engine.headers`
 * does not name it. Headers that everything sends do not count.
 */
export function createDroppedHeaders(emit: Emit) {
  const told = new Set<string>();
  return {
    note(headers: IncomingHttpHeaders, named: readonly string[]): void {
      for (const name in headers) {
        const short = name.slice(0, LONGEST);
        if (told.has(short) || told.size === MOST || named.includes(name)) continue;
        if (isUsual(name) || whyNotNamed(name) !== undefined) continue;
        told.add(short);
        const advice = 'If the engine answers by it, name it in engine.headers';
        const message = `clients send the header ${short}, which is not forwarded. ${advice}`;
        emit({ type: 'warning', message });
      }
    },
    names: (): readonly string[] => [...told],
  };
}
