import { ensureDebianPackages } from '../support/debian-packages.ts';

const JAR_FOLDER = '/usr/share/java';

/** Debian 12's packages of Mondrian 3.11 and of what it needs, with the jars that are used of each. */
const JARS: Readonly<Record<string, readonly string[]>> = {
  'libmondrian-java': ['mondrian'],
  'libolap4j-java': ['olap4j', 'olap4j-xmla'],
  'libeigenbase-resgen-java': ['eigenbase-resgen', 'eigenbase-xom'],
  'libeigenbase-farrago-java': ['eigenbase-properties'],
  cup: ['java-cup-0.11b-runtime'],
  'libcommons-collections3-java': ['commons-collections3'],
  'libcommons-dbcp-java': ['commons-dbcp'],
  'libcommons-io-java': ['commons-io'],
  'libcommons-lang3-java': ['commons-lang3'],
  'libcommons-logging-java': ['commons-logging'],
  'libcommons-math-java': ['commons-math'],
  'libcommons-pool-java': ['commons-pool'],
  'libcommons-vfs-java': ['commons-vfs2'],
  'liblog4j1.2-java': ['log4j-1.2'],
  'libxerces2-java': ['xercesImpl'],
  'libhsqldb-java': ['hsqldb'],
  'libservlet-api-java': ['servlet-api'],
  'libjetty9-java': [
    'jetty9-server',
    'jetty9-servlet',
    'jetty9-http',
    'jetty9-io',
    'jetty9-util',
    'jetty9-util-ajax',
    'jetty9-security',
  ],
};

const jarPath = (jar: string): string => `${JAR_FOLDER}/${jar}.jar`;

/** The class path of the engine. */
export const ENGINE_CLASS_PATH: readonly string[] = Object.values(JARS).flat().map(jarPath);

/**
 * Makes sure that Java, its compiler and the engine's jars are here. As root on Debian it installs what is
 * missing; otherwise it throws an Error that names the command to run.
 */
export async function ensureEnginePackages(): Promise<void> {
  await ensureDebianPackages([
    { name: 'default-jdk-headless', probe: 'javac' },
    ...Object.entries(JARS).map(([name, [jar = name]]) => ({ name, probe: jarPath(jar) })),
  ]);
}
