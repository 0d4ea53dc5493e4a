/** Draws docs/images/overview.svg, the picture of the README. Run it by `npm run docs` after a change of what it says. */

import { writeFileSync } from 'node:fs';

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly title: string;
  readonly lines?: readonly string[];
  readonly kind?: 'gateway' | 'other';
}

const [WIDTH, HEIGHT] = [880, 280];
/** Colours follow the reader's scheme, since the picture stands on pages of both. */
const STYLE = `
  text { font: 13px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2933; }
  .title { font-weight: 600; font-size: 14px; }
  .note { font-size: 12px; fill: #52606d; }
  .other { fill: #f5f7fa; stroke: #9aa5b1; }
  .gateway { fill: #e3f2fd; stroke: #1565c0; stroke-width: 2; }
  .arrow { stroke: #52606d; stroke-width: 1.5; fill: none; marker-end: url(#head); }
  .head { fill: #52606d; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e7eb; } .note { fill: #9aa5b1; } .other { fill: #222b36; stroke: #616e7c; }
    .gateway { fill: #12324f; stroke: #64b5f6; } .arrow { stroke: #9aa5b1; } .head { fill: #9aa5b1; }
  }`;

function box({ x, y, width, height, title, lines = [], kind = 'other' }: Box): string {
  const text = lines.map(
    (line, index) => `<text class="note" x="${x + 14}" y="${y + 46 + 19 * index}">${line}</text>`,
  );
  return `<rect class="${kind}" x="${x}" y="${y}" width="${width}" height="${height}" rx="8"/>
<text class="title" x="${x + 14}" y="${y + 25}">${title}</text>
${text.join('\n')}`;
}

/** Goes from one point to the other; its note stands above its middle, or where it is said. */
function arrow(from: [number, number], to: [number, number], note = '', up = 8): string {
  const [x, y] = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2 - up];
  return `<path class="arrow" d="M${from.join(' ')} L${to.join(' ')}"/>
<text class="note" text-anchor="middle" x="${x}" y="${y}">${note}</text>`;
}

const drawing = [
  box({
    ...{ x: 10, y: 30, width: 170, height: 124, title: 'Pivot tables' },
    lines: ['Excel', 'Power BI, Tableau', 'Saiku, olap4j', 'grids in a browser'],
  }),
  box({
    ...{ x: 320, y: 10, width: 250, height: 164, title: 'MDX gateway', kind: 'gateway' },
    lines: [
      'checks the login (HTTP Basic)',
      'reads the XMLA, judges its session',
      'answers what was asked before',
      'asks the engine once for the rest',
      'keeps whole, error-free answers',
      'passes on all that it cannot judge',
    ],
  }),
  box({
    ...{ x: 710, y: 30, width: 160, height: 124, title: 'OLAP engine' },
    lines: ['Mondrian, eMondrian', 'MDX for Kylin', 'Analysis Services', 'others over XMLA'],
  }),
  box({
    ...{ x: 10, y: 212, width: 170, height: 58, title: 'Load job' },
    lines: ['after new data'],
  }),
  box({
    ...{ x: 320, y: 212, width: 250, height: 58, title: 'Redis (optional)' },
    lines: ['one cache for several gateways'],
  }),
  arrow([180, 92], [318, 92], 'MDX over XMLA'),
  arrow([570, 92], [708, 92], 'what is new'),
  arrow([180, 228], [318, 160], 'clearCache', 20),
  arrow([445, 174], [445, 210]),
];

writeFileSync(
  new URL('../docs/images/overview.svg', import.meta.url),
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-labelledby="said">
<title id="said">Pivot tables ask the MDX gateway over XMLA. It answers what was asked before, and asks the OLAP engine once for the rest. Load jobs call clearCache. Several gateways share a Redis.</title>
<style>${STYLE}
</style>
<defs><marker id="head" markerWidth="9" markerHeight="9" refX="7" refY="4" orient="auto"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>
${drawing.join('\n')}
</svg>
`,
);
