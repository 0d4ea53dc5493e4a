import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensureDebianPackages } from './debian-packages.ts';
import { freePort } from './free-port.ts';
import { spawnWithParent } from './redis-process.ts';
import { onAnyPort, PortTaken } from './taken-port.ts';

/** Prometheus of Debian, with promtool. */
export const ensurePrometheus = () =>
  ensureDebianPackages([{ name: 'prometheus', probe: 'prometheus' }]);

/** Resolves to what promtool prints, when it is content. @param input on its standard input */
export async function promtool(args: readonly string[], input = ''): Promise<string> {
  const child = spawn('promtool', args);
  let output = '';
  const collect = (text: string) => void (output += text);
  child.stdout.setEncoding('utf8').on('data', collect);
  child.stderr.setEncoding('utf8').on('data', collect);
  child.stdin.end(input);
  const code = await new Promise((resolve) => child.once('close', resolve));
  if (code !== 0) throw new Error(`promtool ${args.join(' ')}: ${output}`);
  return output;
}

/**
 * Starts a Prometheus on 127.0.0.1, and resolves when it is ready.
 * @param files by their names; one is prometheus.yml, beside which the others lie
 */
export async function startPrometheus(files: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-prometheus-'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);

  async function launch(port: number) {
    const child = spawnWithParent('prometheus', [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ]);
    const ended = new Promise<false>((resolve) => child.once('close', () => resolve(false)));
    let output = '';
    const ready = new Promise<true>((resolve) => {
      const collect = (text: string) => {
        output += text;
        if (output.includes('Server is ready to receive web requests')) resolve(true);
      };
      child.stdout?.setEncoding('utf8').on('data', collect);
      child.stderr?.setEncoding('utf8').on('data', collect);
    });
    if (!(await Promise.race([ready, ended]))) {
      throw output.includes('address already in use') ? new PortTaken(output) : new Error(output);
    }
    return { child, ended };
  }

  const { port, running } = await onAnyPort(freePort, launch);
  return {
    /** `data` of an answer of its HTTP API. */
    async ask(path: string): Promise<unknown> {
      const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`);
      const answer = (await response.json()) as { status: string; data: unknown };
      if (answer.status !== 'success') throw new Error(`${path}: ${JSON.stringify(answer)}`);
      return answer.data;
    },
    async close(): Promise<void> {
      running.child.kill();
      await running.ended;
      rmSync(folder, { recursive: true });
    },
  };
}
