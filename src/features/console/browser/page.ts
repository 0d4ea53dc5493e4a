/** Parts of a page, for the server that shows it first and the browser that keeps it fresh. */
import type { ComponentChildren } from 'preact';
import type { AllTold, Rights, Told } from '../pages.ts';

export interface PageView {
  readonly query: URLSearchParams;
  readonly rights: Rights;
  /** Answer of a source; undefined where there is none. */
  told<T>(name: string): T | undefined;
  /** Shows an answer, or why there is none. @throws TypeError where the page has no such source */
  show<T>(name: string, show: (told: T) => ComponentChildren): ComponentChildren;
  /** Asks again at once; does nothing without a script. */
  readonly refresh: () => void;
}

/** Names below /admin, each with the words of the page's query that it takes. */
export type Sources = Readonly<Record<string, readonly string[]>>;

export interface Page {
  readonly path: string;
  readonly title: string;
  isFor(rights: Rights): boolean;
  sources(query: URLSearchParams): Sources;
  view(view: PageView): ComponentChildren;
}

export type Words = Readonly<Record<string, string | null | undefined>>;
/** Makes a path with those words in its query that are there. */
export function link(path: string, words: Words): string {
  const given = Object.entries(words).flatMap(([name, word]) => (word ? [[name, word]] : []));
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** Asks each source. @param tell is given paths below /admin with their queries */
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
