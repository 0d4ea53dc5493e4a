import { shortStatus, type Answer } from './http-client.ts';

/**
 * Hits after which any query is remembered byte by byte: it is learnt from the second one, while the gateway is idle. Which
 * way a hit was found shows in nothing that leaves the gateway; test/unit/line/handler.test.ts counts it.
 */
export const HITS_UNTIL_REMEMBERED = 10;

/**
 * Asks until the query is remembered.
 * @returns all answers; the last one was found by what is remembered
 * @throws when one of them is no hit
 */
export async function untilRemembered(
  ask: () => Promise<Answer>,
): Promise<readonly [...Answer[], Answer]> {
  const hits: Answer[] = [];
  for (;;) {
    const hit = await ask();
    if (shortStatus(hit) !== 'hit') throw new Error(`this is no hit: ${shortStatus(hit)}`);
    if (hits.length === HITS_UNTIL_REMEMBERED) return [...hits, hit];
    hits.push(hit);
  }
}
