import { describe, expect, test } from '@jest/globals';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Import {
  readonly from: string;
  /** A path below src/, or the name of a package. */
  readonly to: string;
  readonly typeOnly: boolean;
}

const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((path) => /\.tsx?$/.test(path))
  .map((path) => `src/${path}`)
  .sort();
const textOf = (path: string) => readFileSync(join(ROOT, path), 'utf8');

const IMPORT = /^(?:import|export)\s+(type\s+)?(?:[^;'"]*?\sfrom\s+)?'([^']+)';/gm;
const DYNAMIC = /\bimport\('([^']+)'\)/g;

function importsOf(path: string): Import[] {
  const text = textOf(path);
  const found = [
    ...[...text.matchAll(IMPORT)].map(([, type, to = '']) => ({
      to,
      typeOnly: type !== undefined,
    })),
    ...[...text.matchAll(DYNAMIC)].map(([, to = '']) => ({ to, typeOnly: false })),
  ];
  return found.map(({ to, typeOnly }) => ({
    from: path,
    to: to.startsWith('.') ? normalize(join(dirname(path), to)) : to,
    typeOnly,
  }));
}

const imports = sources.flatMap(importsOf);

/** `src/http/answers.ts` is of `http`, `src/app.ts` of `app`. */
const partOf = (path: string) => path.split('/')[1]?.replace(/\.ts$/, '') ?? '';

/** Of what nothing is too high to use it. */
const COMMON = ['common'];

/** What each part may use, beside itself and what is common. `types`: only as types. */
const ARROWS: Readonly<Record<string, { values: readonly string[]; types?: readonly string[] }>> = {
  main: {
    values: [
      'gateway',
      'cli',
      'config',
      'demo',
      'features',
      'observability',
      'compose',
      'settings',
      'workers',
    ],
    types: ['storage'],
  },
  demo: { values: ['gateway', 'config', 'xmla'], types: ['compose'] },
  gateway: {
    values: ['compose', 'features', 'config', 'http', 'observability', 'cache', 'workers'],
    types: ['storage'],
  },
  compose: {
    values: [
      'app',
      'line',
      'auth',
      'config',
      'engine',
      'freshness',
      'http',
      'cache',
      'proxy',
      'redis',
      'roles',
      'sessions',
      'storage',
      'features',
      'workers',
      'xmla',
    ],
    types: ['observability'],
  },
  workers: { values: ['auth', 'freshness', 'observability'], types: ['cache'] },
  app: {
    values: ['http', 'api', 'config', 'observability'],
    types: ['line', 'cache', 'storage', 'features'],
  },
  line: {
    values: ['auth', 'http', 'engine', 'proxy', 'cache', 'sessions', 'xml', 'xmla'],
    types: ['freshness', 'roles'],
  },
  http: {
    values: ['auth', 'xmla', 'engine', 'proxy', 'cache', 'settings'],
  },
  api: { values: ['http', 'proxy', 'roles', 'datasets'], types: ['auth', 'storage'] },
  engine: { values: ['proxy', 'settings', 'xml', 'xmla'], types: ['cache'] },
  storage: { values: ['roles', 'datasets', 'settings'] },
  proxy: { values: [] },
  features: {
    values: [
      'line',
      'sessions',
      'auth',
      'cache',
      'engine',
      'freshness',
      'http',
      'observability',
      'proxy',
      'settings',
      'storage',
      'workers',
      'xml',
      'xmla',
    ],
  },
  sessions: { values: ['freshness', 'xmla'] },
  redis: { values: ['freshness', 'settings'], types: ['cache'] },
  cache: { values: ['settings', 'xmla'], types: ['freshness', 'xml'] },
  freshness: { values: [] },
  xmla: { values: ['xml'] },
  xml: { values: [] },
  roles: { values: ['freshness'] },
  datasets: { values: [] },
  auth: { values: ['settings'] },
  cli: { values: ['auth', 'http', 'settings', 'storage'], types: ['cache', 'compose'] },
  common: { values: [] },
  config: {
    values: [
      'auth',
      'cache',
      'engine',
      'features',
      'http',
      'observability',
      'redis',
      'settings',
      'storage',
    ],
  },
  settings: { values: [] },
  observability: { values: ['cache', 'settings'] },
};

describe('imports', () => {
  test('run along the arrows, and nowhere else', () => {
    const wrong = imports.filter(({ from, to, typeOnly }) => {
      if (!to.startsWith('src/')) return false;
      const [user, used] = [partOf(from), partOf(to)];
      const { values = [], types = [] } = ARROWS[user] ?? {};
      const allowed = [user, ...COMMON, ...values, ...(typeOnly ? types : [])];
      return !allowed.includes(used);
    });
    expect(wrong.map(({ from, to }) => `${from} → ${to}`)).toEqual([]);
  });

  test('of every part are written down as arrows', () => {
    expect([...new Set(sources.map(partOf))].sort()).toEqual(Object.keys(ARROWS).sort());
  });

  test('of src/xmla are its own files, src/xml, words, how names are folded, and types of the kinds of engines', () => {
    const others = imports.filter(
      ({ from, to }) =>
        partOf(from) === 'xmla' && to.startsWith('src/') && !['xmla', 'xml'].includes(partOf(to)),
    );
    expect(others.length).toBeGreaterThan(0);
    for (const { to, typeOnly } of others) {
      expect([to, typeOnly]).toEqual(
        ['src/common/reasons.ts', 'src/common/fold-case.ts'].includes(to)
          ? [to, typeOnly]
          : ['src/common/engine-kinds.ts', true],
      );
    }
  });

  test('make no circle, of types neither', () => {
    const inside = imports.filter(({ to }) => to.startsWith('src/'));
    const inCircle = (start: string): boolean => {
      const seen = new Set<string>();
      const open = [start];
      for (let path = open.pop(); path !== undefined; path = open.pop()) {
        for (const { to } of inside.filter(({ from }) => from === path)) {
          if (to === start) return true;
          if (!seen.has(to)) open.push(to);
          seen.add(to);
        }
      }
      return false;
    };
    expect(sources.filter(inCircle)).toEqual([]);
  });

  test('of a feature are none of another one, and only the lists and the configuration name features', () => {
    const lists = /^src\/features\/(?:all|events|warnings)\.ts$/;
    const featureOf = (path: string) => /^src\/features\/([\w-]+)\//.exec(path)?.[1];
    const features = new Set(sources.flatMap((path) => featureOf(path) ?? []));
    expect(features.size).toBeGreaterThan(0);
    const wrong = imports.filter(({ from, to, typeOnly }) => {
      const used = featureOf(to);
      const composes = /^src\/config\/(?:config|rules)\.ts$/.test(from);
      if (composes && to.endsWith('/config.ts')) return false;
      // The console takes the types of what it shows from what tells it.
      const isShown = typeOnly && from.startsWith('src/features/console/');
      return used !== undefined && used !== featureOf(from) && !lists.test(from) && !isShown;
    });
    expect(wrong).toEqual([]);
  });

  test('name files that are there', () => {
    const missing = imports.filter(({ to }) => to.startsWith('src/') && !sources.includes(to));
    expect(missing).toEqual([]);
  });

  test.each([
    ['ioredis', /^src\/redis\//],
    ['undici', /^src\/cli\/gateway-client\.ts/],
    ['http-proxy-middleware', /^src\/proxy\//],
    ['express', /^src\/(app\.ts|api\/.*|features\/.*|http\/.*|observability\/metrics\.ts)$/],
    ['preact', /^src\/features\/console\/browser\/.*$/],
    ['uplot', /^src\/features\/console\/browser\/chart\.tsx$/],
    ['esbuild', /^src\/features\/console\/build\.ts$/],
    ['bcrypt', /^src\/(main\.ts|auth\/.*|demo\/.*)$/],
    ['swagger-ui-dist/absolute-path.js', /^src\/http\/docs-page\.ts$/],
    ['content-type', /^src\/(http|xml)\//],
    [
      'zod',
      /^src\/((demo|features|roles|datasets)\/|api\/json\.ts|http\/admin(-[a-z]+)?\.ts|storage\/dump\.ts)/,
    ],
    ['pg', /^src\/storage\/postgres\.ts$/],
    ['node:sqlite', /^src\/storage\/sqlite-worker\.ts$/],
    ['swagger-ui-dist/absolute-path.js', /^src\/http\/docs-page\.ts$/],
    ['pino', /^src\/observability\//],
    ['prom-client', /^src\/(observability\/|workers\/metrics\.ts)/],
  ])('of the package %s stand in one place', (name, place) => {
    const users = imports.filter(({ to }) => to === name).map(({ from }) => from);
    expect(users.length).toBeGreaterThan(0);
    expect(users.filter((path) => !place.test(path))).toEqual([]);
  });
});

test('only src/main.ts touches the process', () => {
  const touching = sources.filter((path) => {
    const code = textOf(path).replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
    return /\bprocess(?:\.[a-z]|\[)/i.test(code) || /from 'node:process'/.test(code);
  });
  expect(touching).toEqual(['src/main.ts']);
});

test('what decides and waits has its time from the clock that it is given', () => {
  const rooms = /^src\/(?:cache|compose|features|freshness|line|sessions|watch|gateway\.ts)/;
  const code = (path: string) => textOf(path).replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
  const timers = /(?<!\.)\bset(?:Timeout|Interval)\b/;
  const decides = (path: string) => rooms.test(path) && !path.includes('/browser/');
  const own = sources.filter((path) => decides(path) && timers.test(code(path)));
  expect(own).toEqual([]);
});

test.each([
  ['src/line/handler.ts', 200],
  ['src/gateway.ts', 150],
])('%s is read at one sitting', (path, most) => {
  expect(textOf(path).trimEnd().split('\n').length).toBeLessThanOrEqual(most);
});

test('nothing is exported by default', () => {
  expect(sources.filter((path) => /^export default\b/m.test(textOf(path)))).toEqual([]);
});

/** Paths and packages that are loaded together with a file, without those that it loads later. */
function loadedWith(path: string, found = new Set<string>()): ReadonlySet<string> {
  if (found.has(path)) return found;
  found.add(path);
  if (!path.startsWith('src/')) return found;
  for (const [, type, to = ''] of textOf(path).matchAll(IMPORT)) {
    if (type === undefined) {
      loadedWith(to.startsWith('.') ? normalize(join(dirname(path), to)) : to, found);
    }
  }
  return found;
}

test.each([
  ['src/main.ts', ['src/gateway.ts', 'src/features/all.ts', 'express', 'zod', 'ioredis', 'pg']],
  ['src/gateway.ts', ['src/app.ts', 'express', 'zod', 'ioredis', 'pg']],
])('%s loads what takes long only when it is needed', (path, late) => {
  const loaded = loadedWith(path);
  expect(late.filter((one) => loaded.has(one))).toEqual([]);
});

describe('docs/ARCHITECTURE.md', () => {
  const blocks = [...textOf('docs/ARCHITECTURE.md').matchAll(/^```\n([\s\S]*?)^```$/gm)].map(
    ([, block = '']) => block,
  );
  const listed = blocks.flatMap((block) =>
    block.split('\n').flatMap((line) => /^(src\/\S+\.tsx?)(?:\s{2,}\S.*)?$/.exec(line)?.[1] ?? []),
  );

  test('lists every file of src/ once', () => {
    expect(listed.toSorted()).toEqual(sources);
  });

  test('and all other documents name files that are there', () => {
    const documents = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.md'))
      .map((path) => `docs/${path}`);
    const missing = ['README.md', ...documents].flatMap((path) =>
      [...textOf(path).matchAll(/`((?:src|test|scripts|config)\/[\w./-]+\.\w+)`/g)]
        .map(([, named = '']) => named)
        .filter((named) => !existsSync(join(ROOT, named)))
        .map((named) => `${path}: ${named}`),
    );
    expect(missing).toEqual([]);
  });

  test('the top of src/ holds at most 25 rooms', () => {
    const rooms = new Set(sources.flatMap((path) => /^src\/([\w-]+)\//.exec(path)?.[1] ?? []));
    expect(rooms.size).toBeLessThanOrEqual(25);
  });
});

/** Suites directly in test/unit that hold the repository as a whole. */
const REPOSITORY = new Set(['architecture', 'oracle-mutants', 'words']);

const unitFiles = readdirSync(join(ROOT, 'test/unit'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .sort();
const isTest = (path: string) => path.endsWith('.test.ts');
const nameOf = (path: string) => path.replace(/(\.sized)?\.test\.ts$/, '');

/** `src/a/b.ts`, or `bench/b.ts` and `scripts/b.ts` beside src. */
const isSource = (name: string) =>
  ['src/', ''].some((root) =>
    ['.ts', '.tsx'].some((extension) => existsSync(join(ROOT, `${root}${name}${extension}`))),
  );

describe('test/unit', () => {
  test('has each test at the path of its source, or in a folder of that name', () => {
    const lost = unitFiles
      .filter(isTest)
      .map(nameOf)
      .filter((name) => {
        const isMapped = isSource(name) || isSource(dirname(name));
        return !isMapped && !REPOSITORY.has(name);
      });
    expect(lost).toEqual([]);
  });

  test('has each helper beside a test', () => {
    const folders = new Set(unitFiles.filter(isTest).map(dirname));
    const lost = unitFiles.filter((path) => !isTest(path) && !folders.has(dirname(path)));
    expect(lost).toEqual([]);
  });
});
