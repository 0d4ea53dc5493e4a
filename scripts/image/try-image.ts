// try-image.ts INSPECT_FILE ROOT: runs the image in front of a stand-in for an engine and checks what
// an operator relies on. Prints one line for each check; the exit code is 1 when one fails.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  globSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { hash } from 'bcrypt';
import { freePort } from '../../test/support/free-port.ts';
import { startEngineStandIn } from './engine-stand-in.ts';
import type { Exit, RunningImage } from './run-image.ts';
import { readImageConfig, runImage } from './run-image.ts';

const START_MS = 20_000;
/** Of what is added to the base. */
const OWN_MB = 60;
const STOP_MS = 10_000;

const QUERY = `<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body>
<Execute xmlns="urn:schemas-microsoft-com:xml-analysis">
<Command><Statement>SELECT FROM [Trial]</Statement></Command>
<Properties><PropertyList><Catalog>Trial</Catalog><Format>Multidimensional</Format></PropertyList></Properties>
</Execute></Body></Envelope>`;

const [inspectFile, root] = process.argv.slice(2);
if (inspectFile === undefined || root === undefined) {
  throw new Error('Usage: try-image.ts INSPECT_FILE ROOT');
}

interface Package {
  readonly name: string;
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}

const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as Package;
const config = readImageConfig(inspectFile);
const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-image-'));
const password = randomBytes(12).toString('hex');
const port = await freePort();
const gateway = `http://127.0.0.1:${port}`;
const engine = await startEngineStandIn();
let running: RunningImage | undefined;

try {
  await check('the image names user, command, health check and stop signal', checkConfig);
  await check('it holds production dependencies only', () => checkContents(root));
  await check('it lists each package that it holds', () => checkBill(root));
  await check(`the gateway's own part is at most ${OWN_MB} MB`, () => checkSize(root));
  const files = await writeFiles();
  await check('the configuration that it brings is accepted', () => checkOwnConfig(root, files));
  running = await runImage({
    config,
    root,
    env: { ENGINE_URL: engine.url, MDX_GATEWAY_HEALTH_URL: `${gateway}/health/serving` },
    files,
  });
  const started = running;
  await check('it starts on a read-only root and becomes live', () => untilLive(started));
  await check('it does not run as root and has no capability', () => checkProcess(started));
  await check('its health check says healthy', () => checkHealth(started));
  await check('it asks for a login', checkLogin);
  await check('it answers the second of two equal queries from the cache', checkCache);
  await check('it keeps roles in its volume', checkRoles);
  await check('it ends by SIGTERM with exit code 0', () => checkStop(started));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  if (running !== undefined) console.error(`The container printed:\n${running.output()}`);
  process.exitCode = 1;
} finally {
  await stopForGood(running);
  await engine.close();
  rmSync(folder, { recursive: true });
}

async function check(
  promise: string,
  work: () => string | void | Promise<string | void>,
): Promise<void> {
  let found: string | void;
  try {
    found = await work();
  } catch (error) {
    console.error(`not ok: ${promise}`);
    throw error;
  }
  console.log(`ok: ${promise}${found === undefined ? '' : ` (${found})`}`);
}

function checkConfig(): void {
  assert.match(config.User, /^[1-9]\d*:[1-9]\d*$/u);
  assert.deepEqual(config.Entrypoint, ['/app/bin/mdx-gateway']);
  assert.deepEqual(config.Cmd, ['serve', '--config', '/etc/mdx-gateway/config.yaml']);
  assert.equal(config.StopSignal, 'SIGTERM');
  assert.deepEqual(Object.keys(config.Volumes), ['/var/lib/mdx-gateway']);
  assert.equal(config.Healthcheck.Test[0], 'CMD');
  const label = (name: string): string | undefined =>
    config.Labels[`org.opencontainers.image.${name}`];
  assert.equal(label('licenses'), 'Apache-2.0');
  assert.equal(label('version'), manifest.version);
  // Empty where the sources are in no repository.
  assert.match(label('revision') ?? '', /^(?:[\da-f]{40})?$/u);
}

/** What /app/sbom.cdx.json names beside the packages that were found. */
function checkBill(folderOfRoot: string): void {
  const bill = JSON.parse(readFileSync(join(folderOfRoot, 'app/sbom.cdx.json'), 'utf8')) as {
    components: { name: string; version: string }[];
  };
  const named = new Set(bill.components.map(({ name, version }) => `${name}@${version}`));
  const unnamed = globSync('app/node_modules/**/package.json', { cwd: folderOfRoot })
    .filter((path) => /node_modules\/(?:@[^/]+\/)?[^/]+\/package\.json$/u.test(path))
    .map((path) => JSON.parse(readFileSync(join(folderOfRoot, path), 'utf8')) as Package)
    .map(({ name, version }) => `${name}@${version}`)
    .filter((one) => !named.has(one));
  assert.deepEqual(unnamed, []);
}

function checkSize(folderOfRoot: string): string {
  const files = readdirSync(join(folderOfRoot, 'app'), { recursive: true, withFileTypes: true });
  const bytes = files
    .filter((one) => one.isFile())
    .reduce((sum, one) => sum + statSync(join(one.parentPath, one.name)).size, 0);
  const size = `${(bytes / 1e6).toFixed(1)} MB`;
  assert.ok(bytes <= OWN_MB * 1e6, `It is ${size}`);
  return size;
}

function checkContents(folderOfRoot: string): void {
  const modules = join(folderOfRoot, 'app/node_modules');
  const has = (name: string): boolean => existsSync(join(modules, name));
  const absent = Object.keys(manifest.dependencies).filter((name) => !has(name));
  const surplus = Object.keys(manifest.devDependencies)
    // Types of a production package may come with another production package.
    .filter((name) => !name.startsWith('@types/'))
    .filter(has);
  assert.deepEqual({ absent, surplus }, { absent: [], surplus: [] });
  for (const path of ['app/src', 'app/test', 'root/.npm', 'root/.npmrc', 'run/secrets/ca.pem']) {
    assert.ok(!existsSync(join(folderOfRoot, path)), `/${path} is in the image`);
  }
}

async function checkOwnConfig(folderOfRoot: string, files: Map<string, string>): Promise<void> {
  const checking = await runImage({
    config: { ...config, Cmd: ['check', ...config.Cmd.slice(1)] },
    root: folderOfRoot,
    env: { ENGINE_URL: engine.url },
    files: new Map([...files].filter(([, place]) => !config.Cmd.includes(place))),
  });
  assert.deepEqual(await checking.exit, { code: 0, signal: null }, checking.output());
}

async function writeFiles(): Promise<Map<string, string>> {
  const settings = join(folder, 'config.yaml');
  const users = join(folder, 'users.htpasswd');
  writeFileSync(
    settings,
    `listen: { host: 127.0.0.1, port: ${port} }
auth: { users: /etc/mdx-gateway/users.htpasswd }
engine: { url: "\${ENGINE_URL}" }
storage: { path: /var/lib/mdx-gateway/gateway.sqlite }
`,
  );
  writeFileSync(users, `analyst:${await hash(password, 5)}\n`);
  // The user of the image is nobody out here.
  for (const file of [settings, users]) chmodSync(file, 0o644);
  chmodSync(folder, 0o755);
  return new Map([
    [settings, '/etc/mdx-gateway/config.yaml'],
    [users, '/etc/mdx-gateway/users.htpasswd'],
  ]);
}

async function untilLive(image: RunningImage): Promise<void> {
  const deadline = performance.now() + START_MS;
  let ended: Exit | undefined;
  void image.exit.then((exit) => (ended = exit));
  for (;;) {
    const answer = await fetch(`${gateway}/health/live`).catch(() => undefined);
    if (answer?.status === 200) return;
    assert.equal(ended, undefined, `It ended: ${JSON.stringify(ended)}`);
    assert.ok(performance.now() < deadline, `No 200 from /health/live within ${START_MS} ms`);
    await delay(50);
  }
}

function checkProcess(image: RunningImage): void {
  const status = readFileSync(`/proc/${image.pid}/status`, 'utf8');
  const field = (name: string): string[] =>
    new RegExp(`^${name}:[ \\t]*(.*)$`, 'mu').exec(status)?.[1]?.trim().split(/\s+/u) ?? [];
  const [user, group] = config.User.split(':');
  assert.deepEqual(field('Uid'), [user, user, user, user]);
  assert.deepEqual(field('Gid'), [group, group, group, group]);
  assert.deepEqual(field('Groups'), ['']);
  for (const set of ['CapPrm', 'CapEff', 'CapAmb']) assert.match(field(set).join(), /^0+$/u);
  assert.equal(field('NSpid').at(-1), '1');
}

async function checkHealth(image: RunningImage): Promise<void> {
  const { code } = await image.execute(config.Healthcheck.Test.slice(1));
  assert.equal(code, 0);
  const wrong = ['env', `MDX_GATEWAY_HEALTH_URL=${gateway}/no-such-page`];
  const unhealthy = await image.execute([...wrong, ...config.Healthcheck.Test.slice(1)]);
  assert.equal(unhealthy.code, 1, 'It says healthy whatever the answer is');
}

function ask(login: string): Promise<Response> {
  return fetch(`${gateway}/mdx/xmla`, {
    method: 'POST',
    body: QUERY,
    headers: {
      Authorization: `Basic ${Buffer.from(login).toString('base64')}`,
      'Content-Type': 'text/xml; charset=utf-8',
      SOAPAction: '"urn:schemas-microsoft-com:xml-analysis:Execute"',
    },
  });
}

async function checkLogin(): Promise<void> {
  const answer = await ask('analyst:wrong');
  await answer.body?.cancel();
  assert.equal(answer.status, 401);
  assert.equal(engine.queries, 0, 'The engine was asked for somebody without a login');
}

async function checkCache(): Promise<void> {
  const first = await ask(`analyst:${password}`);
  const text = await first.text();
  assert.equal(first.status, 200, text);
  assert.match(first.headers.get('Cache-Status') ?? '', /^mdx-gateway; fwd=miss/u);
  assert.match(text, />42<\/Value>/u);
  const second = await ask(`analyst:${password}`);
  assert.equal(await second.text(), text);
  assert.match(second.headers.get('Cache-Status') ?? '', /^mdx-gateway; hit/u);
  assert.equal(engine.queries, 1);
}

async function checkRoles(): Promise<void> {
  const answer = await fetch(`${gateway}/api/roles?pageNum=0&pageSize=10&containsDesc=false`, {
    headers: { Authorization: `Basic ${Buffer.from(`analyst:${password}`).toString('base64')}` },
  });
  assert.deepEqual(await answer.json(), {
    status: 0,
    data: { pageNum: 0, pageSize: 10, list: [{ id: 1, name: 'Admin' }], total: 1 },
  });
}

async function checkStop(image: RunningImage): Promise<void> {
  image.kill('SIGTERM');
  const exit = await Promise.race([image.exit, delay(STOP_MS, undefined, { ref: false })]);
  assert.deepEqual(exit, { code: 0, signal: null }, `Not within ${STOP_MS} ms`);
}

async function stopForGood(image: RunningImage | undefined): Promise<void> {
  if (image === undefined) return;
  try {
    image.kill('SIGKILL');
  } catch {
    // It has ended, as it should.
  }
  await image.exit;
}
