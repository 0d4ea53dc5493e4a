import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor';
import { Deployment } from 'kubernetes-models/apps/v1/Deployment';
import { HorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler';
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget';
import { ConfigMap } from 'kubernetes-models/v1/ConfigMap';
import { Service } from 'kubernetes-models/v1/Service';
import { ServiceAccount } from 'kubernetes-models/v1/ServiceAccount';
import { parseArguments } from '../../src/cli/arguments.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { ensureDebianPackages } from '../support/debian-packages.ts';
import { copyDeploy, renderKubernetes, type Manifest } from '../support/deploy-files.ts';
import { send } from '../support/http-client.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const sourceOf = (path: string) => readFileSync(join(ROOT, path), 'utf8');

/** The schemas of Kubernetes, and where their types are. */
const KINDS = {
  Deployment: [Deployment, 'kubernetes-models/apps/v1/Deployment'],
  HorizontalPodAutoscaler: [
    HorizontalPodAutoscaler,
    'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler',
  ],
  NetworkPolicy: [NetworkPolicy, 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy'],
  PodDisruptionBudget: [PodDisruptionBudget, 'kubernetes-models/policy/v1/PodDisruptionBudget'],
  ConfigMap: [ConfigMap, 'kubernetes-models/v1/ConfigMap'],
  Service: [Service, 'kubernetes-models/v1/Service'],
  ServiceAccount: [ServiceAccount, 'kubernetes-models/v1/ServiceAccount'],
  ServiceMonitor: [
    ServiceMonitor,
    '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor',
  ],
} as const;
type Kind = keyof typeof KINDS;

let folder: string;
let base: Manifest[];
let production: Manifest[];
let gateway: TestGateway;
beforeAll(async () => {
  await ensureDebianPackages([{ name: 'kubernetes-client', probe: 'kubectl' }]);
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-kubernetes-'));
  copyDeploy(folder);
  base = renderKubernetes(folder, 'base');
  production = renderKubernetes(folder, 'overlays/production');
  gateway = await startTestGateway({ engine: { url: 'http://127.0.0.1:9' } });
});
afterAll(async () => {
  await gateway?.close();
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

/** The only one of its kind in the production overlay, with its type. */
function only<K extends Kind>(kind: K): InstanceType<(typeof KINDS)[K][0]> {
  const found = production.filter((manifest) => manifest.kind === kind);
  expect([kind, found.length]).toEqual([kind, 1]);
  return found[0] as InstanceType<(typeof KINDS)[K][0]>;
}

function parts() {
  const { spec } = only('Deployment');
  const pod = spec?.template.spec;
  const [container] = pod?.containers ?? [];
  const labels = spec?.template.metadata?.labels;
  if (!pod || !container || !labels) throw new Error('The Deployment has no container');
  const mount = (volume: string) => {
    const { mountPath } = container.volumeMounts?.find(({ name }) => name === volume) ?? {};
    const source = pod.volumes?.find(({ name }) => name === volume);
    if (mountPath === undefined || source === undefined) throw new Error(`No volume ${volume}`);
    return { mountPath, source };
  };
  return { spec, pod, container, labels, config: mount('config'), secrets: mount('secrets') };
}

const itemsOf = ({ secrets }: ReturnType<typeof parts>) => secrets.source.secret?.items ?? [];

/** The configuration as a pod has it. */
function loadMounted(): Config {
  const found = parts();
  const { container, config, secrets } = found;
  const command = parseArguments(container.args ?? []);
  expect(command.kind).toBe('serve');
  const files: Record<string, string> = {
    users: 'ADMIN:x\n',
    'redis-url': 'rediss://u:p@redis.example:6379\n',
    'database-url': 'postgres://u:p@postgres.example:5432/mdx_gateway\n',
  };
  const shown = new Map(
    itemsOf(found).map(({ key, path }) => [`${secrets.mountPath}/${path}`, files[key] ?? '']),
  );
  for (const [name, text] of Object.entries(only('ConfigMap').data ?? {})) {
    shown.set(`${config.mountPath}/${name}`, text);
  }
  return loadConfig({
    file: 'config' in command ? command.config : undefined,
    env: {},
    workingFolder: '/',
    readFile(path) {
      const text = shown.get(path);
      if (text === undefined) throw new Error(`There is no ${path}`);
      return Buffer.from(text);
    },
  });
}

/** What TypeScript says of manifests as values of their types: of keys that Kubernetes would drop, too. */
function typeErrors(manifests: readonly Manifest[]): string {
  const lines = manifests.map((manifest, at) => {
    const [, module] = KINDS[manifest.kind as Kind];
    const type = `import('${module}').I${manifest.kind}`;
    return `export const m${at}: ${type} = ${JSON.stringify(manifest, null, 1)};\n`;
  });
  const file = join(folder, 'manifests.mts');
  writeFileSync(file, lines.join(''));
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'esnext'];
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  const args = [tsc, ...options, '--skipLibCheck', '--types', '', '--ignoreConfig', file];
  return spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' }).stdout;
}

test('base and overlay are what the schemas of Kubernetes allow, and hold no key that these do not know', () => {
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const all = [...base, ...production];
  expect(new Set(all.map(({ kind }) => kind))).toEqual(new Set(Object.keys(KINDS)));
  for (const manifest of all) {
    const [Model] = KINDS[manifest.kind as Kind];
    const model = new (Model as new (data: object) => Deployment)(manifest);
    expect(() => model.validate()).not.toThrow();
    expect([manifest.kind, manifest.apiVersion]).toEqual([manifest.kind, model.apiVersion]);
  }
  expect(typeErrors(all)).toBe('');
  const misspelt = JSON.stringify(only('Deployment')).replace('readinessProbe', 'readinesProbe');
  expect(typeErrors([JSON.parse(misspelt)])).toContain('readinesProbe');
  for (const { metadata } of production) expect(metadata.namespace).toBe('mdx-gateway');
});

test('the configuration is one of the gateway, and every file that it names is mounted', () => {
  const { listen, auth, cache, storage } = loadMounted();
  const found = parts();
  const { container, secrets, config, spec, pod } = found;
  expect(container.ports).toEqual([expect.objectContaining({ containerPort: listen.port })]);
  expect(listen.host).toBe('0.0.0.0');
  const paths = itemsOf(found).map(({ path }) => `${secrets.mountPath}/${path}`);
  expect(paths).toContain(auth.users);
  expect(cache.redis?.url).toBeDefined();
  expect(storage.driver).toBe('postgres');
  // The names of the map and of its reference both got the digest of the content.
  expect(config.source.configMap?.name).toBe(only('ConfigMap').metadata?.name);
  expect(config.source.configMap?.name).toMatch(/^mdx-gateway-\w+$/);
  // The command that makes the Secret names what is mounted.
  const head = sourceOf('deploy/kubernetes/base/kustomization.yaml');
  const [, name, files = ''] = /create secret generic (\S+) (.*)/.exec(head) ?? [];
  expect(secrets.source.secret?.secretName).toBe(name);
  const keys = files.split(' ').map((word) => word.replace('--from-file=', ''));
  expect(itemsOf(found).map(({ key }) => key)).toEqual(keys);
  // More than one runs side by side: with Redis, and without waiting for the end of the former one.
  expect(spec?.replicas).toBeUndefined();
  expect(pod.serviceAccountName).toBe(only('ServiceAccount').metadata?.name);
});

test('probes and metrics are pages of the gateway that answer as they are asked', async () => {
  const { container } = parts();
  const { startupProbe, livenessProbe, readinessProbe } = container;
  for (const probe of [startupProbe, livenessProbe, readinessProbe]) {
    const { path, port } = probe?.httpGet ?? {};
    expect(port).toBe(container.ports?.[0]?.name);
    expect([path, (await send(gateway.url, { path: path ?? '' })).status]).toEqual([path, 200]);
  }
  expect(readinessProbe?.httpGet?.path).toBe('/health/serving');
  expect(livenessProbe?.httpGet?.path).toBe('/health/live');
  const [endpoint] = only('ServiceMonitor').spec?.endpoints ?? [];
  const path = endpoint?.path ?? '';
  const headers = { authorization: basic('alice') };
  expect((await send(gateway.url, { path, headers })).status).toBe(200);
  // It has a login because this page wants one.
  expect((await send(gateway.url, { path })).status).toBe(401);
  expect(endpoint?.basicAuth).toBeDefined();
  const head = sourceOf('deploy/kubernetes/overlays/production/kustomization.yaml');
  const { username, password } = endpoint?.basicAuth ?? {};
  expect(username?.name).toBe(password?.name);
  expect(head).toContain(`create secret generic ${username?.name} `);
  for (const { key } of [username, password].filter((one) => one !== undefined)) {
    expect(head).toMatch(new RegExp(`--from-(?:literal|file)=${key}=`));
  }
});

test('a pod has the time that the gateway takes, and the user of the image', () => {
  const { pod, container } = parts();
  const [, deadline = ''] = /SHUTDOWN_DEADLINE_MS = ([\d_]+)/.exec(sourceOf('src/main.ts')) ?? [];
  const [, waits] = container.lifecycle?.preStop?.exec?.command ?? [];
  const needed = Number(deadline.replaceAll('_', '')) / 1000 + Number(waits);
  expect(needed).toBeGreaterThan(30);
  expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(needed);
  const [, user, group] = /^USER (\d+):(\d+)$/m.exec(sourceOf('Dockerfile')) ?? [];
  expect(pod.securityContext).toMatchObject({
    runAsNonRoot: true,
    runAsUser: Number(user),
    runAsGroup: Number(group),
    fsGroup: Number(group),
    seccompProfile: { type: 'RuntimeDefault' },
  });
  expect(container.securityContext).toEqual({
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  });
  expect(pod.automountServiceAccountToken).toBe(false);
});

test('Service, autoscaler, budget, policy and monitor mean the pods of the Deployment', () => {
  const { labels, container, pod } = parts();
  const port = container.ports?.[0]?.name ?? '';
  const service = only('Service');
  expect(labels).toMatchObject(service.spec?.selector ?? { none: '' });
  const [served] = service.spec?.ports ?? [];
  expect(served?.targetPort).toBe(port);
  const monitor = only('ServiceMonitor').spec;
  expect(service.metadata?.labels).toMatchObject(monitor?.selector.matchLabels ?? { none: '' });
  expect(monitor?.endpoints.map((endpoint) => endpoint.port)).toEqual([served?.name]);

  const scaler = only('HorizontalPodAutoscaler').spec;
  const { apiVersion, kind, metadata } = only('Deployment');
  expect(scaler?.scaleTargetRef).toEqual({ apiVersion, kind, name: metadata?.name });
  expect(scaler?.minReplicas).toBeGreaterThanOrEqual(2);
  // It counts in parts of what a pod asks for.
  for (const { resource } of scaler?.metrics ?? []) {
    expect(container.resources?.requests).toHaveProperty(resource?.name ?? '');
  }
  const budget = only('PodDisruptionBudget').spec;
  const policy = only('NetworkPolicy').spec;
  const spread = pod.topologySpreadConstraints?.map(({ labelSelector }) => labelSelector) ?? [];
  expect(spread).toHaveLength(2);
  for (const selector of [budget?.selector, policy?.podSelector, ...spread]) {
    expect(labels).toMatchObject(selector?.matchLabels ?? { none: '' });
  }
  expect(policy?.ingress?.flatMap(({ ports = [] }) => ports)).toEqual([{ protocol: 'TCP', port }]);
  const { engine, cache, storage } = loadMounted();
  const urls = [engine.url, cache.redis?.url, 'url' in storage ? storage.url : ''];
  const reached = policy?.egress?.flatMap(({ ports = [] }) => ports.map((one) => one.port));
  const wanted = urls.flat().map((url) => Number(new URL(String(url)).port));
  expect(reached).toEqual(expect.arrayContaining([53, ...wanted]));
});
