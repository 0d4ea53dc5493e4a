import type { z } from 'zod';
import { GatewayError } from '../../errors.ts';

/** More would not help anybody, and a body can hold millions. */
const MOST_PROBLEMS = 20;

/**
 * The value as the schema gives it back.
 * @param repeated names of the fields that were given more than once, of which the value holds only one
 * @throws GatewayError `bad-request` that tells all problems, each with its field, unless they are too many
 */
export function checked<T>(
  schema: z.ZodType<T>,
  value: unknown,
  repeated: readonly string[] = [],
): T {
  const result = schema.safeParse(value);
  if (result.success && repeated.length === 0) return result.data;
  const issues = result.error?.issues ?? [];
  const told = [
    ...repeated.map((field) => `${field}: is given more than once`),
    ...issues
      .slice(0, MOST_PROBLEMS)
      .map(({ path, message }) => `${fieldOf(path) ?? 'the body'}: ${message}`),
  ];
  if (issues.length > MOST_PROBLEMS) told.push('and more');
  throw new GatewayError('bad-request', `${told.join('; ')}.`);
}

/** `contains[2].type` */
function fieldOf(path: readonly PropertyKey[]): string | undefined {
  if (path.length === 0) return undefined;
  return path
    .map((step, index) =>
      typeof step === 'number' ? `[${step}]` : `${index === 0 ? '' : '.'}${String(step)}`,
    )
    .join('');
}
