import { describe, expect, test } from '@jest/globals';
import { describeConfig } from '../../../../src/config/describe-config.ts';
import { FOLDER, load, mistakes } from '../../config/fake-files.ts';

const REDIS = 'cache: { redis: { url: "redis://a", password: "${file:redis_password}" } }';
const PLACE = `${FOLDER}/redis_password`;

describe('a secret that lies in a file of its own', () => {
  test.each([
    ['as it stands', 'Q: {x} ${HOME}', 'Q: {x} ${HOME}'],
    ['without the line break of an editor', 'QQZZ\n', 'QQZZ'],
    ['without that of Windows', 'QQZZ\r\n', 'QQZZ'],
    ['with spaces at its ends', ' QQZZ ', ' QQZZ '],
  ])('is taken %s', (_how, content, password) => {
    const { cache } = load({ yaml: REDIS, files: { [PLACE]: content } });
    expect(cache.redis?.password).toBe(password);
  });

  test('may be a part of a value, and stand at an absolute path', () => {
    const yaml =
      'storage: { driver: postgres, url: "postgres://mdx:${file:/run/secrets/db}@${HOST:-db}/mdx" }';
    const { storage } = load({ yaml, files: { '/run/secrets/db': 'QQZZ\n' } });
    expect(storage).toMatchObject({ url: 'postgres://mdx:QQZZ@db/mdx' });
  });

  test('may be a number or a duration, as from the environment', () => {
    const yaml = 'listen: { port: "${file:port}" }';
    expect(load({ yaml, files: { [`${FOLDER}/port`]: '7171\n' } }).listen.port).toBe(7171);
  });

  test.each([
    ['EACCES', 'the file redis_password cannot be read: permission denied'],
    [new Uint8Array([0xff, 0xfe]), 'the file redis_password is not UTF-8 text'],
    [new Uint8Array(1024 * 1024 + 1), 'the file redis_password is larger than 1MiB'],
  ])('is told when it cannot be used (%#)', (content, message) => {
    expect(mistakes({ yaml: REDIS, files: { [PLACE]: content } })).toEqual([
      `cache.redis.password: ${message}`,
    ]);
  });

  test.each(['', 'QQZZ\nQQZZ', '\n\n', 'Q'.repeat(2000)])(
    'is refused without being shown when the key does not take it (%#)',
    (content) => {
      const [line, ...more] = mistakes({ yaml: REDIS, files: { [PLACE]: content } });
      expect(line).toMatch(/^cache\.redis\.password: must be a text of 1 to 1024 characters/);
      expect([more, line?.includes('Q')]).toEqual([[], false]);
    },
  );

  test('is shown by no description of the configuration and no message, in whatever key it stands', () => {
    const yaml = 'listen: { host: "${file:redis_password}" }';
    expect(load({ yaml, files: { [PLACE]: 'qqzz' } }).listen.host).toBe('qqzz');
    const described = describeConfig(load({ yaml: REDIS, files: { [PLACE]: 'qqzz' } }));
    expect(described).toContain('redis://a');
    expect(described).not.toContain('qqzz');
    expect(mistakes({ yaml, files: { [PLACE]: 'QQ ZZ' } }).join()).toMatch(/^listen\.host: [^Z]*$/);
  });
});
