import { readFileSync } from 'node:fs';

/** The part of OpenAPI 3.1 that the document of the gateway is written in. */

/** A JSON Schema (2020-12). */
export type Schema = Readonly<Record<string, unknown>>;

export interface MediaType {
  readonly schema?: Schema;
  readonly example?: unknown;
  readonly examples?: Readonly<
    Record<string, { readonly summary?: string; readonly value: unknown }>
  >;
}

export interface Reference {
  readonly $ref: string;
}

export interface Header {
  readonly description: string;
  readonly required?: boolean;
  readonly schema: Schema;
  readonly example?: unknown;
}

export type Headers = Readonly<Record<string, Header | Reference>>;

export interface Answer {
  readonly description: string;
  readonly headers?: Headers;
  readonly content?: Readonly<Record<string, MediaType>>;
}

/** By status, or `default`; a reference is to an answer of the components or of `x-responses`. */
export type Answers = Readonly<Record<string, Answer | Reference>>;

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly description: string;
  readonly required: boolean;
  readonly schema: Schema;
  readonly example?: unknown;
}

export interface RequestBody {
  readonly description: string;
  readonly required: boolean;
  readonly content: Readonly<Record<string, MediaType>>;
}

/** Which logins an operation takes, one of them; `{}` is none. */
export type Security = readonly Readonly<Record<string, readonly string[]>>[];

export interface Operation {
  readonly operationId: string;
  readonly tags: readonly [Tag];
  readonly summary: string;
  readonly description: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: RequestBody;
  readonly responses: Answers;
  readonly security?: Security;
}

/**
 * The operations of a path. `x-other-methods` has the answers to methods that are not listed; HEAD is answered
 * as GET, without its body, unless it is said otherwise.
 */
export interface PathItem {
  readonly parameters?: readonly Parameter[];
  readonly get?: Operation;
  readonly put?: Operation;
  readonly post?: Operation;
  readonly delete?: Operation;
  readonly 'x-other-methods': Answers;
}

export type Paths = Readonly<Record<string, PathItem>>;

/** Answers to paths that the document does not list. */
export interface OtherPaths {
  /** What such a path is, or begins with before a slash; the first that fits counts. */
  readonly prefix: string;
  readonly responses: Answers;
}

export type Tag = 'Roles' | 'Datasets' | 'Cache' | 'XMLA' | 'Operation';

export interface OpenApiDocument {
  readonly openapi: '3.1.0';
  readonly info: Readonly<Record<string, unknown>>;
  readonly servers: readonly { readonly url: string; readonly description: string }[];
  readonly security: Security;
  readonly tags: readonly { readonly name: Tag; readonly description: string }[];
  readonly paths: Paths;
  readonly components: {
    readonly securitySchemes: Readonly<Record<string, unknown>>;
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly responses: Readonly<Record<string, Answer>>;
    readonly headers: Headers;
  };
  readonly 'x-responses': Readonly<Record<string, Answer>>;
  readonly 'x-other-paths': readonly OtherPaths[];
}

const SERVED = new URL('../../src/http/docs/openapi.json', import.meta.url);

/** The document of the gateway, which these types describe. */
export function describedInterface(version = '0.0.0'): OpenApiDocument {
  const document = JSON.parse(readFileSync(SERVED, 'utf8')) as OpenApiDocument;
  return { ...document, info: { ...document.info, version } };
}
