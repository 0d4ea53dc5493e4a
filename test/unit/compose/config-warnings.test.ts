import { expect, test } from '@jest/globals';
import { configWarnings } from '../../../src/compose/config-warnings.ts';
import { load } from '../config/fake-files.ts';

const warningsOf = (yaml: string) => configWarnings(load({ yaml }));

const KYLIN = 'url: "http://a/mdx/xmla/{project}", kind: kylin';
const REPEAT = 'cache: { purge: { repeat_after: 90s } }';

test('a configuration of which nothing is to be said is not warned of', () => {
  expect(warningsOf('cache: { ttl: 1h }')).toEqual([]);
});

test('a file of roles beside a Redis is warned of', () => {
  expect(warningsOf('cache: { redis: { url: "redis://a" } }')).toEqual([
    expect.stringMatching(/^storage\.driver: sqlite /),
  ]);
});

test('a repetition that cannot call an engine is warned of, with the engines', () => {
  const [warning, ...more] = warningsOf(
    `${REPEAT}
engine: { ${KYLIN}, clear: kylin, login: forward }
projects:
  Own: { engine: { login: none } }
  Same: { ttl: 1h }
  Plain: { engine: { clear: none } }`,
  );
  expect(more).toEqual([]);
  expect(warning).toMatch(/^cache\.purge\.repeat_after: .*\(engine, projects\.Same\.engine\)/);
});

test('of many such engines some are named', () => {
  const projects = Array.from({ length: 9 }, (_, count) => `  P${count}: {}`).join('\n');
  const [warning] = warningsOf(
    `${REPEAT}\nengine: { ${KYLIN}, clear: kylin, login: forward }\nprojects:\n${projects}`,
  );
  expect(warning).toMatch(/projects\.P3\.engine and 5 more\)/);
});

test.each([
  ['without a repetition', `engine: { ${KYLIN}, clear: kylin, login: forward }`],
  ['of engines that are not called', `${REPEAT}\nengine: { ${KYLIN}, login: forward }`],
  ['of engines that need nobody', `${REPEAT}\nengine: { ${KYLIN}, clear: kylin }`],
])('nothing is warned of %s', (_when, yaml) => {
  expect(warningsOf(yaml)).toEqual([]);
});

test('fewer places at the engine than workers are warned of', () => {
  expect(warningsOf('workers: 4\nlimits: { concurrency: 4 }')).toEqual([]);
  expect(warningsOf('workers: 4\nlimits: { concurrency: 3 }')).toEqual([
    expect.stringMatching(/^limits\.concurrency: 3 is less .* 4 workers/),
  ]);
});

test('a project whose name is too long to be reached is warned of', () => {
  const long = 'x'.repeat(256);
  expect(warningsOf(`projects: { ${'x'.repeat(255)}: {} }`)).toEqual([]);
  expect(warningsOf(`projects: { Sales: {}, ${long}: {} }`)).toEqual([
    expect.stringMatching(/^projects\.x{40}…: a name of more than 255 bytes; /),
  ]);
});

test('a key that was withdrawn is accepted whatever it says, and named once', () => {
  for (const value of ['true', 'false', '7', '{}']) {
    expect(warningsOf(`listen: { hot_path: ${value} }`)).toEqual([
      'listen.hot_path: this key was withdrawn and has no effect',
    ]);
  }
});
