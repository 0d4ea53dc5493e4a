import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** By the version of control groups: where they lie, and the names of what is read and written there. */
const VERSIONS = [
  {
    line: /^0::(.*)$/m,
    root: '/sys/fs/cgroup',
    limit: 'memory.max',
    most: 'memory.peak',
    killed: ['memory.events', /^oom_kill (\d+)/m],
  },
  {
    line: /^\d+:memory:(.*)$/m,
    root: '/sys/fs/cgroup/memory',
    limit: 'memory.limit_in_bytes',
    most: 'memory.max_usage_in_bytes',
    killed: ['memory.oom_control', /^oom_kill (\d+)/m],
  },
] as const;

export type ControlGroup = NonNullable<ReturnType<typeof createControlGroup>>;

/**
 * A control group with a limit of memory (bytes), below that of this process, as a container has one. Undefined where this
 * machine does not let this process make one.
 */
export function createControlGroup(limit: number) {
  const groups = readFileSync('/proc/self/cgroup', 'utf8');
  for (const version of VERSIONS) {
    const own = version.line.exec(groups)?.[1];
    if (own === undefined) continue;
    const path = join(version.root, own, `mdx-gateway-test-${process.pid}`);
    const file = (name: string) => join(path, name);
    try {
      mkdirSync(path);
    } catch {
      continue;
    }
    if (!existsSync(file(version.limit))) {
      rmdirSync(path);
      continue;
    }
    writeFileSync(file(version.limit), String(limit));
    const [name, pattern] = version.killed;
    return {
      /** Runs what follows these words in it. */
      command: ['sh', '-c', 'echo $$ >"$0" && exec "$@"', file('cgroup.procs')],
      /** MiB that were taken at most. */
      most: () => Number(readFileSync(file(version.most), 'utf8')) / 1024 ** 2,
      kills: () => Number(pattern.exec(readFileSync(file(name), 'utf8'))?.[1]),
      /** When all that ran in it has ended. */
      remove: () => rmdirSync(path),
    };
  }
  return undefined;
}
