/**
 * npm run build: makes dist/, which is shipped. Few files instead of some eight hundred modules, since most of the
 * time of a start went into finding and linking modules. See docs/decisions/0018-one-bundle.md.
 *   node scripts/build.ts [FOLDER]    another folder than dist
 */

import { build, type BuildOptions, type Plugin } from 'esbuild';
import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { buildConsole, PACKAGES_OF_PAGES } from '../src/features/console/build.ts';

const ROOT = join(import.meta.dirname, '..');
const dist = resolve(process.argv[2] ?? join(ROOT, 'dist'));

/** Native code, files beside the code, and what is loaded only where the configuration asks for it. */
const NOT_BUNDLED = ['bcrypt', 'ioredis', 'pg', 'swagger-ui-dist', 'undici'];

/**
 * To import `node:http` as a module has Node.js read all that it exports, and so load its whole `fetch` (15 to 30 ms of
 * a start). To require it does not, nor does this. Other modules cost the same either way.
 */
const nodeHttp: Plugin = {
  name: 'node-http',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:http$/ }, ({ path, kind }) =>
      kind === 'require-call' ? undefined : { path, namespace: 'builtin', sideEffects: false },
    );
    onLoad({ filter: /./, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
    }));
  },
};

/** What packages load and this program never calls. Half of all bytes. */
const NEVER_CALLED: readonly RegExp[] = [
  // prom-client, for exemplars.
  /^@opentelemetry\/api$/,
  // Express, for `express.json()` and its like, with the tables of all text encodings.
  /^body-parser$/,
  // zod, for messages in other languages. English is imported by another path.
  /^\.\.\/locales\/index\.js$/,
];

const withoutNeverCalled: Plugin = {
  name: 'without-never-called',
  setup({ onResolve, onLoad }) {
    for (const filter of NEVER_CALLED) {
      onResolve({ filter }, ({ path }) => ({ path, namespace: 'never-called' }));
    }
    onLoad({ filter: /./, namespace: 'never-called' }, () => ({
      contents: 'module.exports = {};',
    }));
  },
};

/** What all have in common. */
const common: BuildOptions = {
  absWorkingDir: ROOT,
  outdir: dist,
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node24',
  external: NOT_BUNDLED,
  plugins: [nodeHttp, withoutNeverCalled],
  // CommonJS in the bundle requires what Node.js brings.
  banner: {
    js: `const require = process.getBuiltinModule('node:module').createRequire(import.meta.url);`,
  },
  // Names stay, for the log.
  minifyWhitespace: true,
  minifySyntax: true,
  sourcemap: true,
  sourcesContent: false,
  legalComments: 'linked',
  logLevel: 'warning',
};

await rm(dist, { recursive: true, force: true });
await Promise.all([
  build({ ...common, entryPoints: { main: 'scripts/launch.ts' } }),
  build({
    ...common,
    entryPoints: { program: 'src/main.ts' },
    splitting: true,
    // One folder deeper, as modules in src/ are: some find files by their own place.
    chunkNames: 'parts/[name]-[hash]',
  }),
  // Not in one with the program: each would be in pieces, that others share.
  build({
    ...common,
    entryPoints: {
      'parts/sqlite-worker': 'src/storage/sqlite-worker.ts',
      'parts/document-worker': 'src/datasets/document-worker.ts',
      'parts/config-worker': 'src/config/config-worker.ts',
    },
  }),
]);
await cp(join(ROOT, 'src/demo/recordings'), join(dist, 'parts/recordings'), { recursive: true });
await cp(join(ROOT, 'src/http/docs'), join(dist, 'parts/docs'), { recursive: true });
const pages = join(dist, 'parts/console');
await mkdir(pages);
for (const [name, content] of Object.entries(await buildConsole())) {
  await writeFile(join(pages, name), content);
}
// Of other packages in the bundle, what is installed beside the program has the licences.
for (const name of PACKAGES_OF_PAGES) {
  await cp(join(ROOT, 'node_modules', name, 'LICENSE'), join(pages, `${name}.LICENSE.txt`));
}
