import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { HSQLDB_PROPERTIES, hsqldbScript } from './hsqldb.ts';
import { ENGINE_CLASS_PATH } from './packages.ts';
import { createWarehouse } from './warehouse.ts';

const run = promisify(execFile);

const CACHE_FOLDER = fileURLToPath(new URL('../../.cache/engine/', import.meta.url));

/** What the generated files are made from: a change in any of them makes new ones. */
const SOURCES = [
  'names.ts',
  'warehouse.ts',
  'hsqldb.ts',
  'engine-files.ts',
  'packages.ts',
  'bazaar.mondrian.xml',
  'log4j.properties',
  'MondrianServer.java',
];

/** Catalogs over the same cubes: what is purged for one must stay for the other. */
export const CATALOGS = ['Bazaar', 'BazaarTest'] as const;

export type Catalog = (typeof CATALOGS)[number];

/** The property DataSourceInfo that Mondrian asks for in most requests. */
export const DATA_SOURCE_INFO = 'Bazaar';

const source = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

const escapeXml = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

function dataSources(folder: string): string {
  const definition = pathToFileURL(join(folder, 'bazaar.mondrian.xml')).href;
  const jdbc = `jdbc:hsqldb:file:${join(folder, 'warehouse')}`;
  const catalogs = CATALOGS.map(
    (name) => `<Catalog name="${name}"><Definition>${escapeXml(definition)}</Definition></Catalog>`,
  );
  const connect = `Provider=mondrian;Jdbc=${jdbc};JdbcUser=SA;JdbcDrivers=org.hsqldb.jdbc.JDBCDriver`;
  return `<?xml version="1.0" encoding="UTF-8"?>
<DataSources>
  <DataSource>
    <DataSourceName>${DATA_SOURCE_INFO}</DataSourceName>
    <DataSourceDescription>The sample warehouse</DataSourceDescription>
    <URL>http://localhost/xmla</URL>
    <DataSourceInfo>${escapeXml(connect)}</DataSourceInfo>
    <ProviderName>Mondrian</ProviderName>
    <ProviderType>MDP</ProviderType>
    <AuthenticationMode>Unauthenticated</AuthenticationMode>
    <Catalogs>${catalogs.join('')}</Catalogs>
  </DataSource>
</DataSources>
`;
}

async function fingerprint(): Promise<string> {
  // The folder counts too: data sources name files by their absolute path.
  const hash = createHash('sha256').update(CACHE_FOLDER);
  for (const name of SOURCES) hash.update('\0').update(await readFile(source(name)));
  return hash.digest('hex').slice(0, 16);
}

async function writeFiles(into: string, final: string): Promise<void> {
  await Promise.all([
    writeFile(join(into, 'warehouse.script'), hsqldbScript(createWarehouse())),
    writeFile(join(into, 'warehouse.properties'), HSQLDB_PROPERTIES),
    writeFile(join(into, 'datasources.xml'), dataSources(final)),
    copyFile(source('bazaar.mondrian.xml'), join(into, 'bazaar.mondrian.xml')),
    copyFile(source('log4j.properties'), join(into, 'log4j.properties')),
    run('javac', [
      '-nowarn',
      '-cp',
      ENGINE_CLASS_PATH.join(':'),
      '-d',
      into,
      source('MondrianServer.java'),
    ]),
  ]);
}

/**
 * The folder that holds the warehouse, the schema, the data sources and the compiled main class; made when
 * it is not there. A folder appears by one rename, so two processes may prepare at the same time.
 */
export async function prepareEngineFiles(): Promise<string> {
  const folder = join(CACHE_FOLDER, await fingerprint());
  if (existsSync(folder)) return folder;
  await mkdir(CACHE_FOLDER, { recursive: true });
  const draft = await mkdtemp(join(CACHE_FOLDER, 'draft-'));
  try {
    await writeFiles(draft, folder);
    await rename(draft, folder);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    // Another process was faster: its folder was made from the same sources.
    if (!existsSync(folder)) throw error;
  }
  return folder;
}
