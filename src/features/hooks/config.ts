import { isLongName, LONGEST_NAME } from '../../common/fold-case.ts';
import * as kinds from '../../settings/kinds.ts';
import type { Broken } from '../../settings/problems.ts';
import { byName, key, orNull, REQUIRED, section, type ValueOf } from '../../settings/setting.ts';

/** Names of projects elsewhere, mapped to ours. A list stands for equal names. */
const projectNames: kinds.Kind<ReadonlyMap<string, string>> = {
  type: 'list of project names, or mapping',
  allowed: `a list of different project names, or a mapping of other names to them: at least one, each of at most ${LONGEST_NAME} bytes`,
  hides: () => false,
  read(input, reading) {
    const listed = Array.isArray(input) ? input.map((one) => [one, one] as const) : undefined;
    const written =
      listed ?? (kinds.textOf(input) === undefined ? Object.entries(input ?? {}) : []);
    const names = new Map<string, string>();
    for (const [from, to] of written) {
      const [other, name] = [from, to].map((one) => kinds.projectName.read(one, reading));
      if (other && name && !isLongName(name)) names.set(other, name);
    }
    return names.size > 0 && names.size === written.length ? names : undefined;
  },
  write: (names) => ([...names].every(([from, to]) => from === to) ? [...names.keys()] : names),
};

const hookName = kinds.textKind(
  'hook name',
  '1 to 64 letters, digits, underscores and hyphens',
  (name) => /^[\w-]{1,64}$/.test(name),
);

const hook = section({
  /** The caller and the format of its messages: Kylin 5 about a finished job, or dbt Cloud about a
   * run. Other callers use clearCache. */
  format: key(kinds.choice('kylin5', 'dbt'), REQUIRED),
  /** With kylin5: the user whose login Kylin sends; this user needs no right in auth. */
  user: orNull(kinds.userName),
  /** With dbt: the secret with which dbt Cloud signs. Take it from a file,
   * ${file:/run/secrets/dbt_secret}, or from the environment, ${DBT_SECRET}. */
  secret: orNull(kinds.secretText(16)),
  /** The projects that the hook may purge. With kylin5, those that messages may name; if their
   * names in Kylin differ, a mapping from these. With dbt, those that each message purges. */
  projects: key(projectNames, REQUIRED),
});

export const hooks = byName(hookName, hook);

export type HookConfig = ValueOf<typeof hook>;

export function* hookRules(hook: HookConfig): Broken {
  const { format, projects } = hook;
  const keys = ['user', 'secret'] as const;
  const [needed, other] = format === 'kylin5' ? keys : keys.toReversed();
  if (needed && !hook[needed]) yield [needed, `is missing; format: ${format} needs it`];
  if (other && hook[other]) yield [other, `must not stand with format: ${format}`];
  if (format === 'dbt' && [...projects].some(([from, to]) => from !== to)) {
    yield ['projects', 'must be a list with format: dbt, each message of which purges all of them'];
  }
}
