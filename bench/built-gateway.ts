import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { CLIENT_CORE, run } from './processes.ts';

/**
 * Builds the gateway as it is shipped, into a folder of its own, so that nothing in the tree changes. Returns its main
 * file. @throws Error with what the build said
 */
export async function buildGateway(root: string, folder: string): Promise<string> {
  mkdirSync(folder, { recursive: true });
  cpSync(join(root, 'package.json'), join(folder, 'package.json'));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const dist = join(folder, 'dist');
  await run(CLIENT_CORE, process.execPath, [join(root, 'scripts/build.ts'), dist], root);
  return join(dist, 'main.js');
}
