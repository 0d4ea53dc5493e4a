import { type Cancel, pause } from '../../common/clock.ts';
import type { GatewayEvent } from '../../common/events.ts';
import { finding } from '../../common/finding.ts';
import type { Core, Feature, HourCounts, Line } from '../feature.ts';
import { REASON } from '../../observability/event-rows.ts';
import { asWhom } from './as-whom.ts';
import { warmFigures } from './events.ts';
import { createCandidates } from './candidates.ts';
import { createWarmLine } from './lane.ts';
import { createRefreshAhead } from './refresh-ahead.ts';
import { createWarmUp } from './warm-up.ts';
import { createSeen } from './ways.ts';

const LOOK_MS = 1_000;
const SHARE_MS = 30_000;

/** Asks the most valuable queries again after each purge, before people do (docs/WARMUP.md). */
export function warm(core: Core): Feature {
  const { clock } = core;
  const candidates = createCandidates(core);
  const sleep = (milliseconds: number) => pause(clock, milliseconds);
  const lines = new WeakMap<Line, ReturnType<typeof createWarmLine>>();
  function line() {
    const steps = core.line();
    const made = lines.get(steps) ?? createWarmLine(steps, clock);
    lines.set(steps, made);
    return made;
  }
  const warmUp = createWarmUp({ ...core, sleep, candidates, line });
  const ahead = createRefreshAhead({ ...core, ...candidates, line });
  const seen = { ...createSeen(candidates), ending: ahead.ending };
  let isOn = false;
  let beats: readonly Cancel[] = [];

  function hear(event: GatewayEvent): void {
    candidates.on(event);
    warmUp.on(event);
  }

  function stop(): void {
    for (const end of beats) end();
    beats = [];
  }

  return {
    on: () => (isOn ? hear : undefined),
    seen: ({ warm, cache }) =>
      warm.mode === 'off' && cache.refresh_ahead === 'off' ? undefined : seen,
    gauges: warmFigures(core.memory.warmed),
    pages: async () => (await import('./pages.ts')).warmPages(warmUp),
    findings: async (hour) => [...failedFinding(hour), ...refreshFinding(hour)],
    configure(config) {
      isOn = config.warm.mode !== 'off';
      ahead.configure(config.cache.refresh_ahead === 'on');
      const isShared = config.cache.redis.url.length > 0;
      warmUp.configure({ ...config.warm, as: asWhom(config), isShared });
      stop();
      if (!isOn) return;
      beats = [
        clock.every(LOOK_MS, () => void warmUp.look()),
        clock.every(SHARE_MS, () => void candidates.share()),
      ];
    },
    async close() {
      await Promise.all([warmUp.close(), ahead.close()]);
      stop();
    },
  };
}

const countOf = (hour: HourCounts, word: string) =>
  hour(REASON).find(({ name }) => name === word)?.asks ?? 0;

export function failedFinding(hour: HourCounts) {
  const failed = countOf(hour, 'warm-up-failed');
  return finding('warning', 'warm-up-failed', failed > 0)`
      Runs of the warm-up that gave up after five failures in a row, in the last hour: ${failed}.
      The engine failed, or sent answers that cannot be stored. The remaining queries wait until a user asks them.
      The page Warm-up and GET /admin/warm show the result of each query, and so do the lines warmed in the log.`;
}

/** Fewer failed refreshes in an hour are not told. */
const MANY = 10;

export function refreshFinding(hour: HourCounts) {
  const failed = countOf(hour, 'refresh-failed');
  const isOften = failed >= MANY && failed > countOf(hour, 'refreshed');
  return finding('warning', 'refresh-failed', isOften)`
      Answers that could not be asked for ahead of the end of their ttl, in the last hour: ${failed}.
      The engine failed, or sent answers that cannot be stored. Users will wait for these queries.
      The lines refreshed in the log (log.level: debug) show each query. cache.refresh_ahead: off ends this.`;
}
