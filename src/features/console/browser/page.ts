/** What a page of the console is, for the server that shows it first and the browser that keeps it fresh. */
import type { ComponentChildren } from 'preact';
import type { AllTold, Rights, Told } from '../pages.ts';

export interface PageView {
  /** Of the address. */
  readonly query: URLSearchParams;
  readonly rights: Rights;
  /** What a source told; undefined where it did not. */
  told<T>(name: string): T | undefined;
  /** The same where it is shown, or why it was not told. @throws TypeError where no source has this name: a mistake of the page */
  show<T>(name: string, show: (told: T) => ComponentChildren): ComponentChildren;
  /** Asks again at once; where there is no script, nothing does. */
  readonly refresh: () => void;
}

/** Names below /admin, each with those words of the page's query that it takes. */
export type Sources = Readonly<Record<string, readonly string[]>>;

export interface Page {
  readonly path: string;
  readonly title: string;
  isFor(rights: Rights): boolean;
  /** What it shows. */
  sources(query: URLSearchParams): Sources;
  view(view: PageView): ComponentChildren;
}

export type Words = Readonly<Record<string, string | null | undefined>>;
/** A path with those words in its query that are there. */
export function link(path: string, words: Words): string {
  const given = Object.entries(words).flatMap(([name, word]) => (word ? [[name, word]] : []));
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** What each source tells. @param tell is given paths below /admin with their queries */
export async function tellAll(
  sources: Sources,
  query: URLSearchParams,
  tell: (target: string) => Promise<Told | undefined>,
): Promise<AllTold> {
  const asked = Object.entries(sources).map(async ([name, words]) => {
    const given = Object.fromEntries(words.map((word) => [word, query.get(word)]));
    return [name, await tell(link(`/admin/${name}`, given))] as const;
  });
  return Object.fromEntries(await Promise.all(asked));
}
