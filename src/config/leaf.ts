/** The bricks of the schema: how a kind becomes a zod schema whose messages are whole sentences. */

import { z } from 'zod';
import { EnvironmentText } from './environment-text.ts';
import { textOf } from './kinds.ts';
import type { Kind } from './kinds.ts';
import { describeKind, describeValue, unknownWord } from './problems.ts';

/** What the configuration reference says of one key. */
export interface KeyFacts {
  readonly type: string;
  readonly allowed: string;
  readonly meaning: string;
}

/** The facts of every leaf and list of the schema; for sections only `meaning` counts. */
export const keyFacts = z.registry<KeyFacts>();

/** How the message about a required key begins that is not there. */
export const MISSING = 'is missing';

function complaint<T>(kind: Kind<T>, input: unknown): string {
  if (input === undefined) return `${MISSING}; must be ${kind.allowed}`;
  const secret = kind.secret(textOf(input) ?? '');
  return `must be ${kind.allowed} (got ${describeValue(input, secret)})`;
}

function schemaOf<T>(kind: Kind<T>) {
  return z.unknown().transform((input, context): T => {
    const value = kind.read(input);
    if (value !== undefined) return value;
    context.addIssue({ code: 'custom', message: complaint(kind, input) });
    return z.NEVER;
  });
}

/** One key with a value of its own. `meaning` is one or two sentences for the reference. */
export function leaf<T>(kind: Kind<T>, meaning: string) {
  return schemaOf(kind).register(keyFacts, { type: kind.type, allowed: kind.allowed, meaning });
}

const LONGEST_LIST = 1000;

/** A list in which nothing stands twice. */
export function leaves<T extends string>(kind: Kind<T>, meaning: string) {
  const allowed = `a list, each item ${kind.allowed}`;
  return z
    .array(schemaOf(kind), {
      error: ({ input }) => `must be ${allowed} (got ${describeKind(input)})`,
    })
    .max(LONGEST_LIST, { error: `must have at most ${LONGEST_LIST} items` })
    .superRefine((items, context) => {
      for (const [index, item] of items.entries()) {
        if (items.indexOf(item) === index) continue;
        context.addIssue({ code: 'custom', path: [index], message: 'stands twice in the list' });
      }
    })
    .register(keyFacts, { type: `list of ${kind.type}s`, allowed, meaning });
}

/**
 * A message about unknown keys cannot name several keys in one line, so it holds a JSON list of lines, one for
 * each key, and `unknownKeyLines` takes it apart.
 */
export function unknownKeyLines(message: string): readonly string[] {
  return JSON.parse(message) as string[];
}

function strictSection<S extends z.ZodRawShape>(shape: S) {
  const names = Object.keys(shape);
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? JSON.stringify(issue.keys.map((key: string) => unknownWord('key', key, names)))
        : `must be a mapping with keys of ${names.join(', ')} (got ${describeKind(issue.input)})`,
  });
}

// A text from the environment is an object, and zod would take it for a mapping.
const asScalar = (input: unknown) => (input instanceof EnvironmentText ? input.text : input);

/** A mapping of known keys. Nothing after the colon means an empty mapping. */
export function section<S extends z.ZodRawShape>(shape: S, meaning: string) {
  return z
    .preprocess((input) => (input === null ? {} : asScalar(input)), strictSection(shape))
    .register(keyFacts, { type: 'mapping', allowed: '', meaning });
}

/** A mapping of known keys that is there as a whole or not at all; not at all is `null`. */
export function optionalSection<S extends z.ZodRawShape>(shape: S, meaning: string) {
  return z
    .preprocess(asScalar, strictSection(shape).nullable())
    .register(keyFacts, { type: 'mapping', allowed: '', meaning });
}

// A Map, because zod leaves the key __proto__ out of plain objects.
function asMap(input: unknown): unknown {
  if (input === null) return new Map();
  const scalar = asScalar(input);
  const isMapping = typeof scalar === 'object' && scalar !== null && !Array.isArray(scalar);
  return isMapping ? new Map(Object.entries(scalar)) : scalar;
}

/** A mapping whose keys are names that the operator chooses. */
export function byName<V extends z.ZodType>(name: Kind<string>, value: V, meaning: string) {
  return z
    .preprocess(
      asMap,
      z.map(schemaOf(name), value, {
        error: ({ input }) => `must be a mapping by ${name.type} (got ${describeKind(input)})`,
      }),
    )
    .register(keyFacts, { type: `mapping by ${name.type}`, allowed: '', meaning });
}
