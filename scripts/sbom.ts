/**
 * npm run --silent sbom: prints which packages are in what is shipped, as CycloneDX. The same lock file and npm give the
 * same text.
 */

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PACKAGES_OF_PAGES } from '../src/features/console/build.ts';

interface Component {
  readonly 'bom-ref': string;
  name: string;
  type: string;
  scope: string;
  properties: unknown[];
}

interface Bom {
  serialNumber?: string;
  metadata: { timestamp?: string; component: Component };
  components: Component[];
  dependencies: { readonly ref: string; dependsOn: string[] }[];
}

const ROOT = join(import.meta.dirname, '..');

// All that is installed. With `--omit dev` npm leaves out each package that one for development needs as well, such as zod.
const text = execFileSync(
  'npm',
  'sbom --sbom-format cyclonedx --package-lock-only --include dev'.split(' '),
  { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
);
const bom = JSON.parse(text) as Bom;

const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, { version: string; dev?: true }>;
};
/** As npm names them in what it prints. */
const shipped = new Set(
  Object.entries(lock.packages).flatMap(([path, { version, dev }]) => {
    const name = path === '' ? 'mdx-gateway' : path.replace(/^.*node_modules\//u, '');
    return dev && !PACKAGES_OF_PAGES.includes(name) ? [] : [`${name}@${version}`];
  }),
);

const { metadata } = bom;
// These differ each time.
delete bom.serialNumber;
delete metadata.timestamp;
// npm takes the name of the folder.
Object.assign(metadata.component, { name: 'mdx-gateway', type: 'application' });
bom.components = bom.components.filter((one) => shipped.has(one['bom-ref']));
// One that is there for development too may be marked as such.
for (const one of bom.components) Object.assign(one, { scope: 'required', properties: [] });
bom.dependencies = bom.dependencies
  .filter(({ ref }) => shipped.has(ref))
  .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((one) => shipped.has(one)) }));
console.log(JSON.stringify(bom, undefined, 2));
