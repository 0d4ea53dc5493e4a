import { join } from 'node:path';
import { figureOf } from '../figures.ts';
import { run, SERVER_CORE } from '../processes.ts';
import type { Scenario } from './scenario.ts';

/** What single steps take, in a process of their own. */
export const microScenario: Scenario = {
  name: 'micro',
  title: 'single steps, without a server',
  async run(house) {
    const script = join(import.meta.dirname, '../micro/run.ts');
    const budget = house.settings.quick ? '20' : '100';
    const output = await run(SERVER_CORE, process.execPath, [script, budget]);
    const measured = JSON.parse(output) as readonly { name: string; values: readonly number[] }[];
    return {
      rows: measured.map(({ name, values }) => ({
        title: name,
        unit: 'µs',
        figure: figureOf(values),
      })),
    };
  },
};
