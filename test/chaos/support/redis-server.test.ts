import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import { freePort } from '../../support/free-port.ts';
import type { RedisServer } from '../../support/redis-server.ts';
import { askRedis, processState, startRedis } from '../../support/redis-server.ts';

const started: RedisServer[] = [];

async function redis(...args: Parameters<typeof startRedis>): Promise<RedisServer> {
  const server = await startRedis(...args);
  started.push(server);
  return server;
}

afterEach(async () => {
  for (const server of started.splice(0)) await server.close();
});

describe('a Redis of the test’s own', () => {
  test('answers under its url, by the process it names', async () => {
    const server = await redis();
    expect(server.url).toBe(`redis://127.0.0.1:${server.port}`);
    expect(await askRedis(server.port, 'PING')).toMatch(/^\+PONG/u);
    expect(await askRedis(server.port, 'INFO server')).toContain(`process_id:${server.pid}\r\n`);
  });

  test('shares neither port nor folder with another', async () => {
    const [one, other] = await Promise.all([redis(), redis()]);
    expect(one.port).not.toBe(other.port);
    expect(one.dir).not.toBe(other.dir);
    await askRedis(one.port, 'SET key one');
    expect(await askRedis(other.port, 'GET key')).toBe('$-1\r\n');
  });

  test('forgets everything at a restart, and keeps its port and folder', async () => {
    const server = await redis();
    const { port, dir, pid } = server;
    await askRedis(port, 'SET key value');
    await server.restart();
    expect({ port: server.port, dir: server.dir }).toEqual({ port, dir });
    expect(server.pid).not.toBe(pid);
    expect(await askRedis(port, 'GET key')).toBe('$-1\r\n');
  });

  test('keeps acknowledged writes over a SIGKILL when it is append-only', async () => {
    const server = await redis({ appendonly: true });
    await askRedis(server.port, 'SET key value');
    await server.restart({ signal: 'SIGKILL' });
    expect(await askRedis(server.port, 'GET key')).toContain('value');
  });

  test('comes back as an older self from a snapshot', async () => {
    const server = await redis();
    await askRedis(server.port, 'SET key old');
    await askRedis(server.port, 'SAVE');
    await askRedis(server.port, 'SET key new');
    await server.restart({ signal: 'SIGKILL' });
    expect(await askRedis(server.port, 'GET key')).toContain('old');
  });

  test('is silent while paused and answers afterwards what it was asked', async () => {
    const server = await redis();
    await server.pause();
    expect(processState(server.pid)).toBe('T');
    const reply = askRedis(server.port, 'PING');
    server.resume();
    expect(await reply).toMatch(/^\+PONG/u);
  });

  test('can be stopped while paused', async () => {
    const server = await redis();
    await server.pause();
    await server.stop('SIGTERM');
    await expect(askRedis(server.port, 'PING')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('takes further arguments, other ones at a restart', async () => {
    const server = await redis({ args: ['--maxmemory', '5mb'] });
    expect(await askRedis(server.port, 'CONFIG GET maxmemory')).toContain('5242880');
    await server.restart({ args: ['--requirepass', 'secret'] });
    expect(await askRedis(server.port, 'GET key')).toMatch(/^-NOAUTH/u);
  });

  test('is gone after close, with its folder and nobody else', async () => {
    const [one, other] = await Promise.all([redis(), redis()]);
    await one.close();
    await one.close();
    expect(existsSync(one.dir)).toBe(false);
    expect(existsSync(`/proc/${one.pid}`)).toBe(false);
    await expect(askRedis(one.port, 'PING')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    expect(await askRedis(other.port, 'PING')).toMatch(/^\+PONG/u);
  });

  test('leaves a folder that it was given', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'mdx-gateway-redis-test-'));
    const server = await redis({ dir });
    await server.close();
    expect(existsSync(dir)).toBe(true);
    rmSync(dir, { recursive: true });
  });

  test('takes another port when somebody else was faster, even another Redis', async () => {
    const first = await redis();
    const ports = [first.port, first.port, await freePort()];
    const second = await redis({}, async () => ports.shift() ?? 0);
    expect(ports).toEqual([]);
    expect(second.port).not.toBe(first.port);
    expect(await askRedis(second.port, 'INFO server')).toContain(`process_id:${second.pid}\r\n`);
  });

  test('says so when a port that it must have is taken', async () => {
    const first = await redis();
    await expect(startRedis({ port: first.port })).rejects.toThrow(
      new RegExp(`did not come up on port ${first.port}[^]*in use`, 'u'),
    );
  });

  test('says what redis-server says when it refuses its arguments', async () => {
    await expect(startRedis({ args: ['--no-such-setting', 'yes'] })).rejects.toThrow(
      /did not come up[^]*no-such-setting/u,
    );
  });

  test('does not outlive the process that started it, even when that is killed', async () => {
    const support = new URL('../../support/redis-server.ts', import.meta.url).href;
    const program = `const { startRedis } = await import(${JSON.stringify(support)});
      const { port, dir } = await startRedis();
      console.log(JSON.stringify({ port, dir }));
      process.stdin.resume();`;
    const owner = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const [line] = (await once(owner.stdout, 'data')) as [Buffer];
    const { port, dir } = JSON.parse(line.toString()) as { port: number; dir: string };
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    const broken = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    // Whether it ends or is reset depends on whether Redis had already accepted it.
    socket.on('error', () => undefined).resume();
    owner.kill('SIGKILL');
    await broken;
    rmSync(dir, { recursive: true });
    await expect(askRedis(port, 'PING')).rejects.toMatchObject({
      code: expect.stringMatching(/^ECONN(?:REFUSED|RESET)$/u),
    });
  });
});
