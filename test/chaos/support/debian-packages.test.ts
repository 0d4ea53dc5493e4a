import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { CommandResult, PackageHost } from '../../support/debian-packages.ts';
import { ensureDebianPackages, withFileLock, withPolicy } from '../../support/debian-packages.ts';

const OK: CommandResult = { code: 0, output: '' };
const LOCKED: CommandResult = {
  code: 100,
  output: 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 42 (apt-get)',
};
const REDIS = { name: 'redis-server', probe: 'redis-server' };
const BUILDAH = { name: 'buildah', probe: '/usr/bin/buildah' };

interface Fake extends PackageHost {
  /** What happened, in order: commands, and the borders of lock and policy. */
  readonly story: string[];
  readonly present: Set<string>;
}

function fakeHost(
  options: {
    readonly root?: boolean;
    readonly present?: readonly string[];
    readonly installs?: readonly string[];
    readonly results?: readonly CommandResult[];
    readonly meanwhile?: readonly string[];
  } = {},
): Fake {
  const story: string[] = [];
  const present = new Set(options.present);
  const results = [...(options.results ?? [])];
  return {
    story,
    present,
    has: (probe) => present.has(probe),
    mayInstall: () => options.root ?? true,
    run: async (command, args) => {
      const words = args.filter((word, index) => word !== '-o' && args[index - 1] !== '-o');
      story.push([command, ...words].join(' '));
      const result = results.shift() ?? OK;
      if (words[0] === 'install' && result.code === 0) {
        for (const probe of options.installs ?? []) present.add(probe);
      }
      return result;
    },
    exclusively: async (work) => {
      story.push('lock');
      for (const probe of options.meanwhile ?? []) present.add(probe);
      const value = await work();
      story.push('unlock');
      return value;
    },
    withoutServices: async (work) => {
      story.push('no services');
      const value = await work();
      story.push('services');
      return value;
    },
    wait: async () => void story.push('wait'),
  };
}

const INSTALL = 'apt-get install -y --no-install-recommends';

describe('ensureDebianPackages', () => {
  test('touches nothing when everything is there', async () => {
    const host = fakeHost({ present: [REDIS.probe, BUILDAH.probe] });
    expect(await ensureDebianPackages([REDIS, BUILDAH], host)).toEqual([]);
    expect(host.story).toEqual([]);
  });

  test('installs what is missing and only that, under the lock and without services', async () => {
    const host = fakeHost({ present: [BUILDAH.probe], installs: [REDIS.probe] });
    expect(await ensureDebianPackages([REDIS, BUILDAH], host)).toEqual(['redis-server']);
    expect(host.story).toEqual([
      'lock',
      'apt-get update',
      'no services',
      `${INSTALL} redis-server`,
      'services',
      'unlock',
    ]);
  });

  test('installs nothing twice when another process did it while this one waited', async () => {
    const host = fakeHost({ meanwhile: [REDIS.probe] });
    expect(await ensureDebianPackages([REDIS], host)).toEqual([]);
    expect(host.story).toEqual(['lock', 'unlock']);
  });

  test('names the exact command when it may not install', async () => {
    const host = fakeHost({ root: false });
    await expect(ensureDebianPackages([REDIS, BUILDAH], host)).rejects.toThrow(
      'apt-get update && apt-get install -y --no-install-recommends redis-server buildah',
    );
    expect(host.story).toEqual([]);
  });

  test('waits while somebody else holds the lock of apt', async () => {
    const host = fakeHost({ results: [LOCKED, LOCKED, OK, LOCKED, OK], installs: [REDIS.probe] });
    await ensureDebianPackages([REDIS], host);
    expect(host.story.filter((line) => line === 'wait')).toHaveLength(3);
    expect(host.present).toContain(REDIS.probe);
  });

  test('gives up on a lock that is never freed', async () => {
    const host = fakeHost({ results: Array.from({ length: 200 }, () => LOCKED) });
    await expect(ensureDebianPackages([REDIS], host)).rejects.toThrow('Could not get lock');
  });

  test('installs although a foreign package source cannot be reached', async () => {
    const host = fakeHost({
      results: [{ code: 100, output: 'E: no signature' }, OK],
      installs: [REDIS.probe],
    });
    expect(await ensureDebianPackages([REDIS], host)).toEqual(['redis-server']);
  });

  test('hands on what apt said when the installation fails, and does not try again', async () => {
    const failure = { code: 100, output: 'E: Unable to locate package redis-server' };
    const host = fakeHost({ results: [OK, failure, OK], installs: [REDIS.probe] });
    await expect(ensureDebianPackages([REDIS], host)).rejects.toThrow(failure.output);
    expect(host.story).toHaveLength(5);
  });

  test('does not believe apt when the command is still not there', async () => {
    await expect(ensureDebianPackages([REDIS], fakeHost())).rejects.toThrow(
      'still no redis-server of package redis-server',
    );
  });

  test('finds a command of this machine by name and a file by its path', async () => {
    const wanted = [
      { name: 'coreutils', probe: 'ls' },
      { name: 'base-files', probe: '/etc/os-release' },
    ];
    expect(await ensureDebianPackages(wanted)).toEqual([]);
  });
});

describe('the ways of this machine', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-packages-test-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  test('a lock lets one work go on at a time, and is free after a failure', async () => {
    const file = join(folder, 'lock');
    let inside = 0;
    const together: number[] = [];
    const visit = async (): Promise<void> => {
      inside += 1;
      together.push(inside);
      await new Promise((resolve) => setImmediate(resolve));
      inside -= 1;
    };
    const fail = withFileLock(file, () => Promise.reject(new Error('failed inside')));
    await expect(fail).rejects.toThrow('failed inside');
    await Promise.all([1, 2, 3].map(() => withFileLock(file, visit)));
    expect(together).toEqual([1, 1, 1]);
  });

  test('services may not start during the work, and the policy is gone afterwards', async () => {
    const file = join(folder, 'policy-1');
    const mode = await withPolicy(file, async () => {
      expect(readFileSync(file, 'utf8')).toContain('exit 101');
      return statSync(file).mode & 0o777;
    });
    expect(mode).toBe(0o755);
    await expect(withPolicy(file, () => Promise.reject(new Error('broken')))).rejects.toThrow(
      'broken',
    );
    expect(existsSync(file)).toBe(false);
  });

  test('a policy of the operator stays as it is', async () => {
    const file = join(folder, 'policy-2');
    writeFileSync(file, '#!/bin/sh\nexit 0\n');
    await withPolicy(file, async () => undefined);
    expect(readFileSync(file, 'utf8')).toBe('#!/bin/sh\nexit 0\n');
  });

  test('a policy that a killed run left behind is taken away', async () => {
    const file = join(folder, 'policy-3');
    await withPolicy(file, async () => {
      await withPolicy(file, async () => undefined);
      expect(existsSync(file)).toBe(false);
    });
  });
});
