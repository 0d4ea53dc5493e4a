/**
 * Writes the tables of docs/OBSERVABILITY.md and docs/API.md that repeat the source: the closed words of
 * src/common/reasons.ts, their statuses, what to do about them (src/common/remedies.ts), and the metrics of src/observability/metrics.ts. Run it after every change of
 * these; a test fails while they differ. What stands outside the markers is written by hand.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { API_ERROR_CODES } from './api-error-codes.ts';
import { EVENTS } from '../src/features/events.ts';
import { createMetrics } from '../src/observability/metrics.ts';
import { REMEDIES } from '../src/common/remedies.ts';
import * as reasons from '../src/common/reasons.ts';
import { gauges } from '../test/support/gauges.ts';

/** The tables of each page by the name in their markers. */
async function tables(): Promise<Readonly<Record<string, Readonly<Record<string, string>>>>> {
  return {
    'docs/OBSERVABILITY.md': {
      hits: wordTable(reasons.HIT_SOURCES),
      bypasses: remedyTable(reasons.BYPASS_REASONS),
      refusals: remedyTable(reasons.REFUSAL_REASONS),
      gateway: wordTable(reasons.GATEWAY_REASONS),
      metrics: await metricTable(),
    },
    'docs/API.md': { errors: errorTable() },
  };
}

function errorTable(): string {
  const rows = API_ERROR_CODES.map(
    ({ code, status, meaning }) => `| \`${code}\` | ${status} | ${meaning} |`,
  );
  return ['| code | status | meaning |', '|---|---|---|', ...rows].join('\n');
}

function wordTable(
  words: Readonly<Record<string, string | readonly [status: number, meaning: string]>>,
) {
  const rows = Object.entries(words).map(
    ([word, meaning]) => `| \`${word}\` | ${typeof meaning === 'string' ? meaning : meaning[1]} |`,
  );
  return ['| word | meaning |', '|---|---|', ...rows].join('\n');
}

function remedyTable(words: Readonly<Partial<Record<keyof typeof REMEDIES, string>>>): string {
  const rows = (Object.entries(words) as [keyof typeof REMEDIES, string][]).map(
    ([word, meaning]) => `| \`${word}\` | ${meaning} | ${REMEDIES[word]} |`,
  );
  return ['| word | meaning | what to do |', '|---|---|---|', ...rows].join('\n');
}

async function metricTable(): Promise<string> {
  const { registry } = createMetrics(EVENTS, { find: () => undefined }, gauges());
  const own = registry
    .getMetricsAsArray()
    .filter(({ name }) => !/^mdx_gateway_(process|nodejs)_/.test(name));
  const rows = own.map((metric) => {
    const { name, help } = metric;
    const labels = (metric as unknown as { labelNames: readonly string[] }).labelNames;
    return `| \`${name}\` | ${labels.join(', ')} | ${help} |`;
  });
  return ['| metric | labels | meaning |', '|---|---|---|', ...rows].join('\n');
}

for (const [path, byName] of Object.entries(await tables())) {
  const file = new URL(`../${path}`, import.meta.url);
  let page = readFileSync(file, 'utf8');
  for (const [name, table] of Object.entries(byName)) {
    const [begin, end] = [`<!-- begin ${name} -->`, `<!-- end ${name} -->`];
    const from = page.indexOf(begin);
    const to = page.indexOf(end);
    if (from < 0 || to < from) throw new Error(`${path} lacks the markers of ${name}`);
    page = `${page.slice(0, from + begin.length)}\n${table}\n${page.slice(to)}`;
  }
  writeFileSync(file, page);
}
