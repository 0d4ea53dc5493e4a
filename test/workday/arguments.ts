import type { Size } from './scene.ts';

/** What the drill is asked to do. */
export interface Order {
  /** Names of scenes; none for all of them. */
  readonly names: readonly string[];
  readonly size: Size;
  readonly seed: number;
  readonly help: boolean;
}

export const usage = (scenes: readonly { name: string; title: string }[]): string =>
  `npm run workday -- [--small] [--scene NAME …] [--seed N]

--small         short scenes, some 100 seconds in all; otherwise ten minutes
--scene NAME    this scene only; may be given several times
--seed N        the random numbers of another run
--help          this text

Scenes:
${scenes.map(({ name, title }) => `${name.padEnd(16)}${title}\n`).join('')}`;

/** @throws Error that says which word is wrong */
export function readOrder(
  words: readonly string[],
  known: readonly string[],
  newSeed: () => number,
): Order {
  const names: string[] = [];
  const flags = new Set<string>();
  let seed: number | undefined;
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? '';
    if (word === '--small' || word === '--help') flags.add(word);
    else if (word === '--scene') names.push(sceneOf(words[(at += 1)], known));
    else if (word === '--seed') seed = seedOf(words[(at += 1)]);
    else throw new Error(`${word} is no option. Options: --small, --scene, --seed, --help`);
  }
  return {
    names,
    size: flags.has('--small') ? 'small' : 'full',
    seed: seed ?? newSeed(),
    help: flags.has('--help'),
  };
}

function sceneOf(name: string | undefined, known: readonly string[]): string {
  if (name !== undefined && known.includes(name)) return name;
  throw new Error(`--scene takes one of ${known.join(', ')}, not ${name ?? 'nothing'}`);
}

function seedOf(text: string | undefined): number {
  const seed = Number(text);
  if (text !== undefined && /^\d+$/.test(text) && seed < 2 ** 32) return seed;
  throw new Error(`--seed takes a whole number from 0 to ${2 ** 32 - 1}, not ${text ?? 'nothing'}`);
}
