/** What a page of the console is, for the server that shows it first and the browser that keeps it fresh. */
import type { ComponentChildren } from 'preact';
import type { Rights } from '../pages.ts';

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

export interface Page {
  readonly path: string;
  readonly title: string;
  isFor(rights: Rights): boolean;
  /** The paths below /admin that it shows, with their queries. */
  sources(query: URLSearchParams): Readonly<Record<string, string>>;
  view(view: PageView): ComponentChildren;
}

type Words = Readonly<Record<string, string | null | undefined>>;
/** A path with those words in its query that are there. */
export function link(path: string, words: Words): string {
  const given = Object.entries(words).flatMap(([name, word]) => (word ? [[name, word]] : []));
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** The address of a page with other words in its query. Undefined takes a word away. */
export const address = (path: string, query: URLSearchParams, changes: Words): string =>
  link(path, { ...Object.fromEntries(query), ...changes });

/** A path below /admin with those words of the page's query that it knows. */
export const target = (path: string, query: URLSearchParams, names: readonly string[]): string =>
  link(path, Object.fromEntries(names.map((name) => [name, query.get(name)])));
