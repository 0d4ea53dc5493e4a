import { listOf } from '../../common/list-of.ts';
import type { WarmConfig } from './config.ts';
import type { Config } from '../../settings/setting.ts';

type Settings = Pick<Config, 'warm' | 'cache' | 'engine' | 'projects'>;

export interface WarmSettings extends WarmConfig {
  readonly as: ReturnType<typeof asWhom>;
  /** All gateways share the entries. */
  readonly isShared: boolean;
}

/** Says in one line whether a run would happen by itself, and as whom. */
export function asWhom({ warm, cache, engine, projects }: Settings) {
  if (warm.mode === 'off') return { possible: false, text: 'off' };
  const all = [
    { name: '', share: cache.share, login: engine.login },
    ...[...projects].map(([name, one]) => ({ name, share: one.share, login: one.engine.login })),
  ];
  const can = all.filter((one) => whyNot(one) === undefined);
  const others = all.flatMap((one) => (can.includes(one) ? [] : [`${one.name} (${whyNot(one)})`]));
  const [first] = can;
  if (first === undefined) {
    return { possible: false, text: `by POST /admin/warm only: ${whyNot(all[0])}` };
  }
  const as = first.login === 'service' ? 'with the service account' : 'without a login';
  const only = first.name === '' ? '' : ` for ${listOf(can.map(({ name }) => name))}`;
  const but = only !== '' || others.length === 0 ? '' : `, but not for ${listOf(others)}`;
  return { possible: true, text: `by itself after each purge, ${as}${only}${but}` };
}

function whyNot({ login, share }: { login?: string; share?: string } = {}): string | undefined {
  if (login === 'forward') return 'engine.login is forward';
  return share === 'user' ? 'cache.share is user' : undefined;
}
