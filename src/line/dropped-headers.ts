import type { IncomingHttpHeaders } from 'node:http';
import type { Emit } from '../common/events.ts';
import { isUsual, whyNotNamed } from '../common/header-names.ts';

/** Clients choose the names: so many are told, and so much of each (characters). */
const MOST = 50;
const LONGEST = 64;

export type DroppedHeaders = ReturnType<typeof createDroppedHeaders>;

/**
 * Tells once of each header that clients send and the engine is not sent, though it might answer by it: `engine.headers` may
 * name it, and nothing sends it as a matter of course.
 */
export function createDroppedHeaders(emit: Emit) {
  const told = new Set<string>();
  return {
    /** @param named the `engine.headers` of the engine that is asked */
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
