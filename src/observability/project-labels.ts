import type { Counter } from 'prom-client';
import { type KnownNames, projectScope } from '../cache/projects.ts';
import type { Clock } from '../common/clock.ts';

/** More project names than this that the configuration does not hold share the label `other`. */
const MAX_LABELS = 200;
/** A label that was not used for so long may be given to another project (ms). */
const UNUSED = 3_600_000;

/**
 * The values of the label `project`. Names of the configuration always have a label. Of the others those that the engine has answered have one, up to a
 * limit; then the one that was not used for longest gives way, if that is an hour, and its counts are dropped.
 * @param counters that have the label `project`
 * @returns the label of a project as a request names it; '' for none
 */
export function createProjectLabels(
  names: Pick<KnownNames, 'find'>,
  clock: Pick<Clock, 'now'>,
  counters: readonly Counter[],
) {
  /** Of names that the configuration does not hold. */
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
