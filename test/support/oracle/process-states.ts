import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { processState } from '../redis-process.ts';

/** Undefined when there is none. */
function stateOf(pid: number): string | undefined {
  try {
    return processState(pid);
  } catch {
    return undefined;
  }
}

/** Resolves when the process stands still, or is gone. */
export async function processStopped(pid: number): Promise<void> {
  while (!['T', 'Z', undefined].includes(stateOf(pid))) await delay(1);
}

/** Resolves when the process is gone, or only waits for its parent to notice. */
export async function processEnded(pid: number): Promise<void> {
  while (!['Z', 'X', undefined].includes(stateOf(pid))) await delay(5);
}

/** Does nothing where the process is gone. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended before.
  }
}

/** SIGKILL; resolves when the process is gone, or only waits for its parent to notice. */
export async function killProcess(pid: number): Promise<void> {
  signalProcess(pid, 'SIGKILL');
  await processEnded(pid);
}

/** The processes that this one has made, the oldest first; none where there is no such process. */
export function childrenOf(pid: number | undefined): number[] {
  if (pid === undefined) return [];
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    return text === '' ? [] : text.split(' ').map(Number);
  } catch {
    return [];
  }
}
