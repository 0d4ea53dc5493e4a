import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeAuthority, type Authority } from '../support/certificates.ts';
import { until } from '../support/http-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { startTestGateway } from '../support/test-gateway.ts';
import '../support/patient-redis.ts';

let [authority, other]: Authority[] = [];
let folder: string;
beforeAll(() => {
  authority = makeAuthority();
  other = makeAuthority();
  folder = mkdtempSync(join(tmpdir(), 'redis-certificates-'));
});
afterAll(() => {
  authority?.remove();
  other?.remove();
  rmSync(folder, { recursive: true });
});

test('certificates for Redis are read again at a reload, also where nothing else has changed', async () => {
  if (authority === undefined || other === undefined) throw new Error('no authorities');
  const [ca, certificate, key] = ['ca.pem', 'client.pem', 'client.key'].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  const [client, stranger] = [authority.issue('gateway'), other.issue('gateway')];
  writeFileSync(ca, other.pem);
  writeFileSync(certificate, stranger.pem);
  copyFileSync(stranger.key, key);
  const redis = await startRedis({
    tls: { ca: authority, server: authority.issue('redis'), client },
  });
  const settings = {
    engine: { url: 'http://127.0.0.1:1' },
    cache: { lease: '100ms', redis: { url: redis.url, ca, certificate, key } },
  };
  const gateway = await startTestGateway(settings);
  try {
    const state = () => gateway.events.findLast(({ type }) => type === 'redis-state');
    await until(() => state() !== undefined);
    expect(state()).toMatchObject({ state: 'down' });
    writeFileSync(ca, authority.pem);
    writeFileSync(certificate, client.pem);
    copyFileSync(client.key, key);
    await gateway.reload(settings);
    await until(() => state()?.type === 'redis-state' && JSON.stringify(state()).includes('up'));
  } finally {
    await gateway.close();
    await redis.close();
  }
});
