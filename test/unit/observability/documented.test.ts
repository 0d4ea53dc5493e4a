import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { createMetrics } from '../../../src/observability/metrics.ts';
import {
  BYPASS_REASONS,
  GATEWAY_REASONS,
  HIT_SOURCES,
  REFUSAL_REASONS,
} from '../../../src/reasons.ts';
import { GATEWAY_STATUS } from '../../../src/errors.ts';

const page = readFileSync(new URL('../../../docs/OBSERVABILITY.md', import.meta.url), 'utf8');

/** The rows of the table between two markers, without its head; cells without their back-quotes. */
function rowsOf(name: string): string[][] {
  const between = page.split(`<!-- begin ${name} -->`)[1]?.split(`<!-- end ${name} -->`)[0] ?? '';
  return between
    .trim()
    .split('\n')
    .slice(2)
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim().replaceAll('`', '')),
    );
}

describe('docs/OBSERVABILITY.md', () => {
  test.each([
    ['hits', HIT_SOURCES],
    ['bypasses', BYPASS_REASONS],
    ['refusals', REFUSAL_REASONS],
    ['gateway', GATEWAY_REASONS],
  ])('tells the closed words of src/reasons.ts with their meanings (%s)', (name, words) => {
    expect(rowsOf(name)).toEqual(Object.entries(words));
  });

  test('tells every metric of the gateway with its labels and help', async () => {
    const { registry } = createMetrics({
      memory: () => ({ entries: 0, bytes: 0 }),
      flights: () => ({ flights: 0, waiters: 0 }),
      engine: () => ({ atEngine: 0, waiting: 0 }),
      epochAge: () => undefined,
      owedPurges: () => 0,
    });
    const helps = [...(await registry.metrics()).matchAll(/^# HELP (\S+) (.*)$/gm)]
      .map(([, name, help]) => [name, help])
      .filter(([name]) => !/^mdx_gateway_(process|nodejs)_/.test(name ?? ''));
    expect(rowsOf('metrics').map(([name, , help]) => [name, help])).toEqual(helps);
  });

  test('names every event that the log tells', () => {
    const log = readFileSync(new URL('../../../src/observability/log.ts', import.meta.url), 'utf8');
    const events = [...log.matchAll(/case '([a-z-]+)':/g)].map(([, name]) => name ?? '');
    expect(events.length).toBeGreaterThan(10);
    const missing = events.filter((name) => name !== 'warning' && !page.includes(`\`${name}\``));
    expect(missing).toEqual([]);
  });
});

describe('the closed words', () => {
  test('are tokens that a structured header can carry (RFC 8941 §3.3.4)', () => {
    const all = [HIT_SOURCES, BYPASS_REASONS, REFUSAL_REASONS, GATEWAY_REASONS];
    for (const word of all.flatMap((words) => Object.keys(words))) {
      expect(word).toMatch(/^[a-z][a-z0-9-]*$/);
    }
  });

  test('of the gateway each have a status', () => {
    expect(Object.keys(GATEWAY_STATUS).sort()).toEqual(Object.keys(GATEWAY_REASONS).sort());
  });
});
