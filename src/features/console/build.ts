/** Bundles the pages of the console, for the shipped program and for one run from sources. */
import { build, type BuildOptions, stop } from 'esbuild';
import { createRequire } from 'node:module';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

const require = createRequire(import.meta.url);
const SOURCES = join(import.meta.dirname, 'browser');

/** Packages whose code is in the pages; all else that is shipped is a dependency. */
export const PACKAGES_OF_PAGES: readonly string[] = ['preact', 'preact-render-to-string', 'uplot'];

const COMMON: BuildOptions = {
  absWorkingDir: SOURCES,
  bundle: true,
  write: false,
  format: 'esm',
  minify: true,
  charset: 'utf8',
  tsconfigRaw: {
    compilerOptions: { jsx: 'react', jsxFactory: 'h', jsxFragmentFactory: 'Fragment' },
  },
  inject: ['jsx.ts'],
  legalComments: 'none',
  logLevel: 'silent',
  outdir: '.',
};

/** Builds each file by its name: script, style sheet and icon, and what makes the first HTML. */
export async function buildConsole(): Promise<Readonly<Record<string, Uint8Array>>> {
  const forBrowser = build({
    ...COMMON,
    platform: 'browser',
    target: 'es2023',
    // uPlot as its makers minified it, as a global, saves 1 kB (gzip). The server draws nothing.
    banner: { js: await readFile(require.resolve('uplot/dist/uPlot.iife.min.js'), 'utf8') },
    loader: { '.svg': 'copy' },
    entryPoints: [
      { in: 'main.tsx', out: 'console' },
      { in: 'style.css', out: 'console' },
      { in: 'icon.svg', out: 'icon' },
    ],
  });
  const forServer = build({
    ...COMMON,
    platform: 'node',
    target: 'node24',
    entryPoints: { 'first-paint': 'first-paint.tsx' },
  });
  // A process of esbuild would outlive the build.
  const built = await Promise.all([forBrowser, forServer]).finally(stop);
  const files = built.flatMap(({ outputFiles = [] }) => outputFiles);
  return Object.fromEntries(files.map(({ path, contents }) => [basename(path), contents]));
}
