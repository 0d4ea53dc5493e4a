/** Starts the engine by hand: `npm run engine -- --port 8080`. */
import { parseArgs } from 'node:util';
import { CATALOGS } from './engine-files.ts';
import { discover } from './envelope.ts';
import { startMondrian } from './mondrian.ts';

const { values } = parseArgs({ options: { port: { type: 'string', default: '8080' } } });
const port = Number(values.port);
if (!Number.isInteger(port) || port < 0 || port > 65_535) {
  console.error(`--port takes a number from 0 to 65535, not ${values.port}`);
  process.exit(2);
}

const engine = await startMondrian({ port });
const { body, soapAction } = discover('DBSCHEMA_CATALOGS');
console.log(`Mondrian answers at ${engine.url} (catalogs ${CATALOGS.join(' and ')}). Try:

curl -s ${engine.url} -H 'Content-Type: text/xml' -H 'SOAPAction: ${soapAction}' \\
  -d '${body.replaceAll('\n', '')}'

Ctrl-C stops it.`);

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    engine.close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
}
