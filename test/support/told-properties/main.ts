/**
 * Runs the oracle for what DISCOVER_PROPERTIES tells; its arguments are the folder of the source that it tries, the number of
 * answers, the seed, and what all houses are to be. It ends with 1 when it has found a fault, and says which.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { GatewayProgram } from '../test-gateway.ts';
import { checkToldProperties, type World } from './oracle.ts';

const [source = '', answers, seed, given = '{}'] = process.argv.slice(2);
const part = (file: string): Promise<unknown> => import(pathToFileURL(join(source, file)).href);
const { createGateway } = (await part('gateway.ts')) as GatewayProgram;
const { loadConfig } = (await part('config/load-config.ts')) as GatewayProgram;
try {
  const counts = await checkToldProperties(
    { createGateway, loadConfig },
    Number(answers),
    Number(seed),
    JSON.parse(given) as Partial<World>,
  );
  console.log(JSON.stringify(counts));
} catch (error) {
  console.log(String(error));
  process.exitCode = 1;
}
