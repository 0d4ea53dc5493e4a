import { GatewayError } from '../../errors.ts';

/** What the schemas of the domain have in common; their messages need no more than the name of the field. */
interface Schema<T> {
  safeParse(
    value: unknown,
  ):
    | { readonly success: true; readonly data: T }
    | { readonly success: false; readonly error: { readonly issues: readonly Issue[] } };
}

interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** More would not help anybody, and a body can hold millions. */
const MOST_PROBLEMS = 20;

/**
 * The value as the schema gives it back.
 * @param whole what the value as a whole is called in a message
 * @throws GatewayError `bad-request` that tells all problems, each with its field, unless they are too many
 */
export function checked<T>(schema: Schema<T>, value: unknown, whole = 'the body'): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const { issues } = result.error;
  const told = issues
    .slice(0, MOST_PROBLEMS)
    .map(({ path, message }) => `${fieldOf(path) ?? whole}: ${message}`);
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
