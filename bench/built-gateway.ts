import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { CLIENT_CORE, run } from './processes.ts';

/**
 * Builds the gateway as it is shipped, into a folder of its own, so that nothing in the tree changes. Returns its main
 * file. @throws Error with what the compiler said
 */
export async function buildGateway(root: string, folder: string): Promise<string> {
  mkdirSync(folder, { recursive: true });
  cpSync(join(root, 'package.json'), join(folder, 'package.json'));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  const project = ['-p', join(root, 'tsconfig.build.json'), '--outDir', join(folder, 'dist')];
  await run(CLIENT_CORE, process.execPath, [compiler, ...project], root);
  cpSync(join(root, 'src/demo/recordings'), join(folder, 'dist/demo/recordings'), {
    recursive: true,
  });
  return join(folder, 'dist/main.js');
}
