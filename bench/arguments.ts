/** What the benchmark is asked to do. */
export interface Order {
  /** Names of scenarios; none for all of them. */
  readonly names: readonly string[];
  readonly list: boolean;
  readonly help: boolean;
  readonly quick: boolean;
  readonly peers: boolean;
  /** Runs the gateway from `src`, without a build. */
  readonly source: boolean;
  /** The folder of another version, with its node_modules. */
  readonly against: string | undefined;
  readonly json: string | undefined;
  readonly svg: string | undefined;
  readonly rounds: number | undefined;
  readonly seconds: number | undefined;
}

export const USAGE = `npm run bench -- [NAME …] [OPTION …]

NAME            a scenario; all of them unless one is named
--list          tells the scenarios and ends
--quick         short rounds, to see whether everything works
--no-peers      without nginx and Varnish
--source        runs the gateway from src instead of a build
--against DIR   beside another checkout of the gateway (with its node_modules): the scenarios against-…, and no others
                unless they are named
--rounds N      measured rounds of each server (default 5)
--seconds N     of one round (default 2)
--json FILE     where the figures go (default bench/results/latest.json)
--svg FILE      where the picture goes (default bench/results/latest.svg)
`;

/** @throws Error that says which word is wrong */
export function readOrder(words: readonly string[], known: readonly string[]): Order {
  const names: string[] = [];
  const flags = new Set<string>();
  const values = new Map<string, string>();
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    if (FLAGS.has(word)) flags.add(word);
    else if (VALUES.has(word)) {
      const value = words[(at += 1)];
      if (value === undefined) throw new Error(`${word} needs a value`);
      values.set(word, value);
    } else if (known.includes(word)) names.push(word);
    else throw new Error(`${word} is no scenario and no option. Scenarios: ${known.join(', ')}`);
  }
  return {
    names,
    list: flags.has('--list'),
    help: flags.has('--help'),
    quick: flags.has('--quick'),
    peers: !flags.has('--no-peers'),
    source: flags.has('--source'),
    against: values.get('--against'),
    json: values.get('--json'),
    svg: values.get('--svg'),
    rounds: countOf('--rounds', values.get('--rounds')),
    seconds: countOf('--seconds', values.get('--seconds')),
  };
}

const FLAGS: ReadonlySet<string> = new Set([
  '--list',
  '--help',
  '--quick',
  '--no-peers',
  '--source',
]);
const VALUES: ReadonlySet<string> = new Set([
  '--against',
  '--json',
  '--svg',
  '--rounds',
  '--seconds',
]);

function countOf(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 1)
    throw new Error(`${name} needs a whole number from 1 on`);
  return count;
}
