/** What a page of the console is, for the server that shows it first and the browser that keeps it fresh. */
import type { ComponentChildren } from 'preact';
import type { AllTold, Rights } from '../pages.ts';

/** What a part of /admin told, or why it did not. */
export type Told<T> = { readonly told: T } | { readonly problem: string };
/** By the names of a page's sources. */
export type Sources = Readonly<Record<string, string>>;
export type { AllTold };

export interface PageView {
  /** Of the address. */
  readonly query: URLSearchParams;
  readonly rights: Rights;
  /** @throws TypeError where no source has this name: a mistake of the page */
  source<T>(name: string): Told<T>;
  /** Asks again at once; where there is no script, nothing does. */
  readonly refresh: () => void;
}

export interface Page {
  readonly path: string;
  readonly title: string;
  isFor(rights: Rights): boolean;
  /** The paths below /admin that it shows, with their queries. */
  sources(query: URLSearchParams): Sources;
  view(view: PageView): ComponentChildren;
}

/** @param words of its query */
export const link = (path: string, words: Record<string, string>): string =>
  `${path}?${new URLSearchParams(words)}`;

/** The address of a page with other words in its query. Undefined takes a word away; a new order begins at the start. */
export function address(
  path: string,
  query: URLSearchParams,
  changes: Readonly<Record<string, string | undefined>>,
): string {
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === '') next.delete(name);
    else next.set(name, value);
  }
  const search = next.toString();
  return search === '' ? path : `${path}?${search}`;
}

/** A path below /admin with those words of the page's query that it knows. */
export function target(
  path: string,
  query: URLSearchParams,
  names: readonly string[],
  more: Readonly<Record<string, string>> = {},
): string {
  const words = new URLSearchParams(more);
  for (const name of names) {
    const value = query.get(name);
    if (value !== null && value !== '') words.set(name, value);
  }
  return words.size === 0 ? path : `${path}?${words}`;
}
