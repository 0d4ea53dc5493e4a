import { expect, test } from '@jest/globals';
import { asWhom } from '../../../../src/features/warm/as-whom.ts';

type Settings = Parameters<typeof asWhom>[0];
const settings = (
  login: string,
  share: string,
  projects: readonly [string, string, string][] = [],
) =>
  ({
    warm: { mode: 'auto' },
    engine: { login },
    cache: { share },
    projects: new Map(
      projects.map(([name, own, shared]) => [name, { share: shared, engine: { login: own } }]),
    ),
  }) as unknown as Settings;

test.each<[string, Settings]>([
  ['off', { ...settings('none', 'everyone'), warm: { mode: 'off' } as never }],
  ['by itself after each purge, without a login', settings('none', 'everyone')],
  ['by itself after each purge, with the service account', settings('service', 'roles')],
  ['by POST /admin/warm only: engine.login is forward', settings('forward', 'everyone')],
  ['by POST /admin/warm only: cache.share is user', settings('service', 'user')],
  [
    'by itself after each purge, with the service account, but not for HR (engine.login is forward), Own (cache.share is user)',
    settings('service', 'everyone', [
      ['HR', 'forward', 'user'],
      ['Own', 'service', 'user'],
      ['Shop', 'service', 'roles'],
    ]),
  ],
  [
    'by itself after each purge, without a login for Shop',
    settings('forward', 'user', [['Shop', 'none', 'everyone']]),
  ],
])('it is told as: %s', (text, given) => {
  expect(asWhom(given)).toEqual({ text, possible: text.startsWith('by itself') });
});
