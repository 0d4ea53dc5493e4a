import { expect, test } from '@jest/globals';
import { failedFinding, refreshFinding } from '../../../../src/features/warm/warm.ts';
import { rowsOf } from '../../../../src/features/hour-report.ts';
import { handClock, statisticsOf } from '../statistics/answered.ts';

const HOUR = 3_600_000;

test('a run that gave up after failures is a finding for an hour', async () => {
  const clock = handClock();
  const { on, shared } = statisticsOf({ clock });
  const found = async () => {
    const { hour } = await shared.hour();
    return failedFinding((kind) => rowsOf(hour, kind));
  };
  on({ type: 'warm-run', state: 'ended', cut: 'budget' } as never);
  expect(await found()).toEqual([]);
  on({ type: 'warm-run', state: 'ended', cut: 'failures' } as never);
  expect(await found()).toMatchObject([
    {
      kind: 'warm-up-failed',
      severity: 'warning',
      text: 'Runs of the warm-up that gave up after five failures in a row, in the last hour: 1.',
    },
  ]);
  clock.moved.wall += 2 * HOUR;
  clock.moved.now += 2 * HOUR;
  expect(await found()).toEqual([]);
});

test('refreshes that fail are a finding when most of many do', async () => {
  const { on, shared } = statisticsOf({ clock: handClock() });
  const told = (result: string, times: number) => {
    for (let i = 0; i < times; i += 1) on({ type: 'refreshed', result } as never);
  };
  const found = async () => {
    const { hour } = await shared.hour();
    return refreshFinding((kind) => rowsOf(hour, kind));
  };
  told('failed', 5);
  told('not-stored', 4);
  told('skipped', 20);
  expect(await found()).toEqual([]);
  told('failed', 1);
  expect(await found()).toMatchObject([
    {
      kind: 'refresh-failed',
      text: 'Answers that could not be asked for ahead of the end of their ttl, in the last hour: 10.',
    },
  ]);
  told('stored', 10);
  expect(await found()).toEqual([]);
});
