/**
 * Runs the oracle for people who were locked out; its arguments are the folder of the source that it tries, and the number of
 * sequences. It ends with 1 when it has found a fault, and says which.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { checkLockedOut, type Tried } from './oracle.ts';

const [source = '', runs] = process.argv.slice(2);
const part = (file: string): Promise<unknown> => import(pathToFileURL(join(source, file)).href);
const { createEngineAuthenticator } = (await part('auth/engine-login.ts')) as Tried;
const { createFileAuthenticator } = (await part('auth/users-file.ts')) as Tried;
try {
  await checkLockedOut({ createEngineAuthenticator, createFileAuthenticator }, Number(runs));
} catch (error) {
  console.log(String((error as Error).cause ?? error));
  process.exitCode = 1;
}
