/* What comes over a link, read strictly: each function throws for what is not as it should be. */

export function readText(said: unknown): string {
  if (typeof said !== 'string') throw unreadable('a text');
  return said;
}

/** The text of the configuration file, if there is one, and how many workers share what it gives. */
export function readConfiguration(said: unknown): { text: string | undefined; workers: number } {
  if (typeof said !== 'object' || said === null) throw unreadable('a configuration');
  const { text, workers } = said as Readonly<Record<string, unknown>>;
  if (typeof workers !== 'number') throw unreadable('a number');
  return { text: text === undefined ? undefined : readText(text), workers };
}

function unreadable(what: string): Error {
  return new Error(`what came over the link is not ${what}`);
}
