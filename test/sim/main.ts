import { loadProgram } from './fleet/program.ts';
import { runFleet, settingsOf } from './fleet/run.ts';
const program = await loadProgram();
const [seed = 1, count = 1, answers = 20000] = process.argv.slice(2).map(Number);
for (let s = seed; s < seed + count; s++) {
  const cpu = process.cpuUsage();
  const { violations, settings, ...r } = await runFleet(program, settingsOf(s, answers));
  const { user, system } = process.cpuUsage(cpu);
  console.log(JSON.stringify({ s, form: settings.form, g: settings.gateways, ...r, cpu: (user + system) / 1e6 }));
  for (const v of violations) console.log(v);
}
process.exit(0);
