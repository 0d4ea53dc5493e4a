import { execute } from './envelope.ts';
import type { ExecuteOptions, PropertyList } from './envelope.ts';
import type { Catalog } from './engine-files.ts';
import { MULTIDIMENSIONAL, TABULAR, named, properties } from './request.ts';
import type { CacheableRequest } from './request.ts';

export interface QueryOptions extends Omit<ExecuteOptions, 'header'> {
  readonly catalog?: Catalog;
  readonly holds?: readonly string[];
  readonly atLeastBytes?: number;
}

export function query(
  name: string,
  statement: string,
  format: PropertyList,
  { catalog = 'Bazaar', holds = [], atLeastBytes = 0, ...options }: QueryOptions,
): CacheableRequest {
  const all = properties(catalog, [...format, ...(options.properties ?? [])]);
  const message = execute(statement, { ...options, properties: all });
  return named(name, message, { catalog, holds, atLeastBytes });
}

/** Asks for a dataset with axes and cells. */
export const pivot = (
  name: string,
  statement: string,
  options: QueryOptions = {},
): CacheableRequest => query(name, statement, MULTIDIMENSIONAL, options);

/** Asks for a rowset. */
export const table = (
  name: string,
  statement: string,
  options: QueryOptions = {},
): CacheableRequest => query(name, statement, TABULAR, options);
