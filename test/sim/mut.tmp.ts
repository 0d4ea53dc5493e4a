import { dirname } from 'node:path';
import { mutantProgram } from '/tmp/wt/A/test/sim/mutants.ts';
import { FLEET_MUTANTS } from '/tmp/wt/A/test/sim/fleet/mutants.ts';
import { runFleets } from '/tmp/wt/A/test/sim/fleet/search.ts';
import { loadProgram } from '/tmp/wt/A/test/sim/fleet/program.ts';
const only = process.argv[2];
for (const [name, { replacements, settings }] of Object.entries(FLEET_MUTANTS)) {
  if (only && !name.includes(only)) continue;
  const t0 = process.cpuUsage();
  const m = mutantProgram(replacements);
  const program = await loadProgram(dirname(m.main));
  const t1 = process.cpuUsage();
  const { found, answers } = await runFleets({ seed: 1, answers: 60000, program, settings: { answers: 4000, ...settings } });
  const t2 = process.cpuUsage();
  const cpu = (a, b) => ((b.user + b.system - a.user - a.system) / 1e6).toFixed(2);
  console.log(name, '|', found?.settings.seed, answers, 'load', cpu(t0, t1), 'run', cpu(t1, t2), found?.violations[0]?.split('\n').at(-1)?.slice(0, 200));
  m.remove();
}
process.exit(0);
