import { loadSessions } from './program.ts';
import { searchLookUps, toldLookUps } from './runs.ts';
import { runInTurn, told } from './search.ts';
import { memoryStore } from './stores.ts';

/** Look-ups of sessions against their changes, and whole requests in sessions. @returns what was broken, in words; '' for nothing */
export async function simulateSessions(goals: {
  seed: number;
  lookUps: number;
  requests: number;
}): Promise<{ readonly facts: Record<string, unknown>; readonly broken: string }> {
  const { seed, lookUps, requests } = goals;
  const program = await loadSessions();
  const looked = await searchLookUps({ seed, lookUps, program });
  const asked = await runInTurn({ seed, requests, openStore: memoryStore });
  const broken = [await toldLookUps(looked, program), told(asked)].filter(Boolean).join('\n\n');
  const facts = {
    seed,
    lookUps: looked.lookUps,
    requests: asked.requests,
    hits: asked.counts['hit'],
  };
  return { facts, broken };
}
