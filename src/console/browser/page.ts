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
