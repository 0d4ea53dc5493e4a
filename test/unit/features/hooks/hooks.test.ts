import { expect, test } from '@jest/globals';
import type { Config } from '../../../../src/config/config.ts';
import { refusedFinding, tellHooks } from '../../../../src/features/hooks/hooks.ts';
import { rowsOf } from '../../../../src/features/hour-report.ts';
import { handClock, statisticsOf } from '../statistics/answered.ts';

const HOUR = 3_600_000;
const PURGED = handClock().wall() - 5;
const hooks: Config['hooks'] = new Map([
  ['kylin', { format: 'kylin5', user: 'k', secret: undefined, projects: new Map([['a', 'Shop']]) }],
  ['dbt', { format: 'dbt', user: undefined, secret: 's', projects: new Map([['X', 'X']]) }],
]);
const purge = {
  id: 'id',
  at: PURGED,
  principal: 'hook:dbt',
  cause: 'hook',
  scope: 'everything',
  known: true,
  result: 'cleared',
  replicas: 1,
  waited: 0,
  engine_calls: 0,
} as const;

test('tells what hooks may purge, who was refused in the last hour, and their latest purge', async () => {
  const clock = handClock();
  const { on, shared } = statisticsOf({ clock });
  const lastHour = async () => {
    const { hour } = await shared.hour();
    return (kind: string) => rowsOf(hour, kind);
  };
  const purgeLog = { latest: async () => ({ complete: true, purges: [purge] }) };
  const called = { type: 'hook-called', id: 'i', projects: [] } as const;
  on({ ...called, hook: 'kylin', result: 'refused', why: 'w' });
  on({ ...called, hook: 'kylin', result: 'failed', why: 'w' });
  on({ ...called, hook: 'kylin', result: 'accepted' });
  const untold = { taken: 0, refused: 0, purged_at: null };
  const kylin = { ...untold, name: 'kylin', format: 'kylin5', projects: ['Shop'] };
  const dbt = { ...untold, name: 'dbt', format: 'dbt', projects: ['X'] };
  expect(await tellHooks({ config: { hooks }, lastHour, purgeLog })).toEqual([
    { ...kylin, taken: 1, refused: 2 },
    { ...dbt, purged_at: new Date(PURGED) },
  ]);
  expect(refusedFinding(await lastHour())).toMatchObject([{ kind: 'hook-refused' }]);
  clock.moved.wall += 2 * HOUR;
  clock.moved.now += 2 * HOUR;
  expect(refusedFinding(await lastHour())).toEqual([]);
});
