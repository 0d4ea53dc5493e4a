import { type Cancel, pause } from '../../common/clock.ts';
import type { GatewayEvent } from '../../common/events.ts';
import { finding } from '../../common/finding.ts';
import type { Core, Feature, HourCounts, Line } from '../feature.ts';
import { REASON } from '../../observability/event-rows.ts';
import { asWhom } from './as-whom.ts';
import { warmFigures } from './events.ts';
import { createCandidates } from './candidates.ts';
import { createWarmLine, type WarmLine } from './lane.ts';
import { createWarmUp } from './warm-up.ts';
import { createSeen } from './ways.ts';

const LOOK_MS = 1_000;
const SHARE_MS = 30_000;

/** Asks the most valuable queries again after each purge, before people do (docs/WARMUP.md). */
export function warm(core: Core): Feature {
  const { clock } = core;
  const candidates = createCandidates(core);
  const sleep = (milliseconds: number) => pause(clock, milliseconds);
  const lines = new WeakMap<Line, WarmLine>();
  function line(): WarmLine {
    const steps = core.line();
    const made = lines.get(steps) ?? createWarmLine(steps, clock);
    lines.set(steps, made);
    return made;
  }
  const warmUp = createWarmUp({ ...core, sleep, candidates, line });
  const seen = createSeen(candidates);
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
    seen: (config) => (config.warm.mode === 'off' ? undefined : seen),
    gauges: warmFigures(core.memory.warmed),
    pages: async () => (await import('./pages.ts')).warmPages(warmUp),
    findings: async (hour) => failedFinding(hour),
    configure(config) {
      isOn = config.warm.mode !== 'off';
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
      await warmUp.close();
      stop();
    },
  };
}

export function failedFinding(hour: HourCounts) {
  const failed = hour(REASON).find(({ name }) => name === 'warm-up-failed')?.asks ?? 0;
  return finding('warning', 'warm-up-failed', failed > 0)`
      Runs of the warm-up that gave up after five failures in a row, in the last hour: ${failed}.
      The engine failed, or sent answers that cannot be stored. The remaining queries wait until a user asks them.
      The page Warm-up and GET /admin/warm show the result of each query, and so do the lines warmed in the log.`;
}
