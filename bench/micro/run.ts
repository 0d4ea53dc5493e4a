/**
 * `node run.ts MILLISECONDS`: checks every step, then measures them in alternating rounds of about so long, and prints
 * microseconds for one call as JSON.
 */

import { STEPS, type Step } from './steps.ts';

const ROUNDS = 9;

const budget = Number(process.argv[2] ?? '200');

for (const { name, check } of STEPS) {
  if (!(await check())) throw new Error(`${name} does not give what it should`);
}
const calls = new Map<Step, number>();
for (const step of STEPS) calls.set(step, await callsWithin(step, budget));
const measured = STEPS.map((step) => ({ name: step.name, values: [] as number[], step }));
for (let round = 0; round < ROUNDS; round++) {
  for (const { step, values } of measured) {
    const count = calls.get(step) ?? 1;
    values.push((await timeOf(step, count)) / count);
  }
}
process.stdout.write(JSON.stringify(measured.map(({ name, values }) => ({ name, values }))));

/** How often a step can be called within the milliseconds; also warms it up. */
async function callsWithin(step: Step, milliseconds: number): Promise<number> {
  for (let count = 16; ; count *= 2) {
    const took = await timeOf(step, count);
    if (took > milliseconds * 500) return Math.ceil((count * milliseconds * 1000) / took);
  }
}

/** CPU time of so many calls (µs): the machine may do other things meanwhile. */
async function timeOf({ call }: Step, count: number): Promise<number> {
  const before = process.cpuUsage();
  for (let at = 0; at < count; at++) {
    const made = call();
    if (made instanceof Promise) await made;
  }
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
