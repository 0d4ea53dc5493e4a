import { execFileSync } from 'node:child_process';
import { cpus, totalmem } from 'node:os';

/** Where and of what the figures are. */
export function describeMachine(root: string): Record<string, string | number> {
  return {
    date: new Date().toISOString(),
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memory: `${(totalmem() / 2 ** 30).toFixed(1)} GiB`,
    node: process.version,
    commit: commitOf(root),
  };
}

function commitOf(root: string): string {
  const git = (...words: string[]) =>
    execFileSync('git', ['-C', root, ...words], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  try {
    const changed = git('status', '--porcelain') !== '';
    return `${git('rev-parse', '--short=12', 'HEAD')}${changed ? ' with changes' : ''}`;
  } catch {
    return 'unknown';
  }
}
