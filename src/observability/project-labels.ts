import type { Counter } from 'prom-client';
import { type KnownNames, projectScope } from '../cache/projects.ts';
import type { Clock } from '../common/clock.ts';

/** Labels of names that the configuration does not hold; more names share the label `other`. */
const MAX_LABELS = 200;
/** Time without use after which a label may go to another project (ms). */
const UNUSED = 3_600_000;

/**
 * Values of the label `project`. Configured names always have one. Of the others, names that the
 * engine answered have one, up to a limit; then the longest unused gives way with its counts.
 * @param counters that have the label `project`
 */
export function createProjectLabels(
  names: Pick<KnownNames, 'find'>,
  clock: Pick<Clock, 'now'>,
  counters: readonly Counter[],
) {
  const labels = new Map<string, { readonly label: string; used: number }>();

  function makeRoom(now: number): boolean {
    if (labels.size < MAX_LABELS) return true;
    let [oldest] = labels;
    for (const one of labels) if (oldest && one[1].used < oldest[1].used) oldest = one;
    if (oldest === undefined || now - oldest[1].used < UNUSED) return false;
    labels.delete(oldest[0]);
    for (const counter of counters) void drop(counter, oldest[1].label);
    return true;
  }

  return (project: string) => {
    if (project === '') return '';
    const name = names.find(project);
    if (name?.configured === true) return name.spelling;
    const scope = projectScope(project);
    const now = clock.now();
    const known = labels.get(scope);
    if (known !== undefined) {
      known.used = now;
      return known.label;
    }
    if (name === undefined || !makeRoom(now)) return 'other';
    labels.set(scope, { label: name.spelling, used: now });
    return name.spelling;
  };
}

async function drop(counter: Counter, project: string): Promise<void> {
  const { values } = await counter.get();
  for (const { labels } of values) if (labels['project'] === project) counter.remove(labels);
}
