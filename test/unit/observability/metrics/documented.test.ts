import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { REMEDIES } from '../../../../src/common/remedies.ts';
import { API_ERROR_CODES } from '../../../../scripts/api-error-codes.ts';
import { EVENTS } from '../../../../src/features/events.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import {
  API_REASONS,
  BYPASS_REASONS,
  GATEWAY_REASONS,
  HIT_SOURCES,
  REFUSAL_REASONS,
} from '../../../../src/common/reasons.ts';
import { anyName } from '../../cache/fakes.ts';
import { gauges } from '../../../support/gauges.ts';

const pageOf = (path: string) =>
  readFileSync(new URL(`../../../../docs/${path}`, import.meta.url), 'utf8');
const page = pageOf('OBSERVABILITY.md');

/** The rows of the table between two markers, without its head; cells without their back-quotes. */
function rowsOf(name: string, text = page): string[][] {
  const between = text.split(`<!-- begin ${name} -->`)[1]?.split(`<!-- end ${name} -->`)[0] ?? '';
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

const meaningsOf = (words: Readonly<Record<string, readonly [number, string]>>) =>
  Object.fromEntries(Object.entries(words).map(([word, [, meaning]]) => [word, meaning]));

describe('docs/OBSERVABILITY.md', () => {
  test.each([
    ['hits', HIT_SOURCES],
    ['bypasses', BYPASS_REASONS],
    ['refusals', REFUSAL_REASONS],
    ['gateway', meaningsOf(GATEWAY_REASONS)],
  ])('tells the closed words of src/common/reasons.ts with their meanings (%s)', (name, words) => {
    expect(rowsOf(name).map(([word, meaning]) => [word, meaning])).toEqual(Object.entries(words));
  });

  test.each(['bypasses', 'refusals'])('says what to do about each of the %s', (name) => {
    const remedies = rowsOf(name).map(([word, , remedy]) => [word, remedy]);
    const words = name === 'bypasses' ? BYPASS_REASONS : REFUSAL_REASONS;
    expect(remedies).toEqual(
      Object.keys(words).map((word) => [word, REMEDIES[word as keyof typeof REMEDIES]]),
    );
  });

  test('tells every metric of the gateway with its labels and help', async () => {
    const { registry } = createMetrics(EVENTS, anyName, gauges());
    const helps = [...(await registry.metrics()).matchAll(/^# HELP (\S+) (.*)$/gm)]
      .map(([, name, help]) => [name, help])
      .filter(([name]) => !/^mdx_gateway_(process|nodejs)_/.test(name ?? ''));
    expect(rowsOf('metrics').map(([name, , help]) => [name, help])).toEqual(helps);
  });

  test('names every event that the log tells', () => {
    const events = Object.keys(EVENTS);
    const missing = events.filter((name) => name !== 'warning' && !page.includes(`\`${name}\``));
    expect(missing).toEqual([]);
  });
});

describe('docs/API.md', () => {
  test('tells the closed codes of the API with their statuses and meanings', () => {
    const codes = API_ERROR_CODES.map(({ code, status, meaning }) => [code, `${status}`, meaning]);
    expect(rowsOf('errors', pageOf('API.md'))).toEqual(codes);
  });

  test('tells all reasons that only the API has', () => {
    const codes = API_ERROR_CODES.map(({ code }) => code);
    expect(codes).toEqual(expect.arrayContaining(Object.keys(API_REASONS)));
    expect(new Set(codes).size).toBe(codes.length);
  });
});

describe('the closed words', () => {
  test('are tokens that a structured header can carry (RFC 8941 §3.3.4)', () => {
    const all = [HIT_SOURCES, BYPASS_REASONS, REFUSAL_REASONS, GATEWAY_REASONS, API_REASONS];
    for (const word of all.flatMap((words) => Object.keys(words))) {
      expect(word).toMatch(/^[a-z][a-z0-9-]*$/);
    }
  });
});
