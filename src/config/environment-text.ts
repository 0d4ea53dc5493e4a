/** Where `${NAME}` and `${NAME:-default}` in a value take the environment. */

/**
 * A text of the configuration that was put together from the environment. It is not a plain string, so that
 * a key which wants a number can take it (the environment holds only text) while a quoted number in the file
 * stays a mistake, and so that no message shows it.
 */
export class EnvironmentText {
  readonly text: string;
  /** False when nothing but defaults from the file went into the text. */
  readonly fromEnvironment: boolean;

  constructor(text: string, fromEnvironment: boolean) {
    this.text = text;
    this.fromEnvironment = fromEnvironment;
  }
}

export type Environment = Readonly<Record<string, string | undefined>>;

const REFERENCE = /\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?/g;

/** The beginning of a reference, escaped or not. */
export const REFERENCE_START = '${';

/**
 * Replaces every reference in one scalar value. As in a shell, the default also takes the place of an empty
 * variable. What a variable holds is not looked at again, so it can bring in neither references nor YAML.
 * `$${` stands for the two characters `${`.
 * @returns the string itself when it holds no reference.
 * @throws Error with the rest of a sentence about the value: a variable is not set, or a reference is not whole.
 */
export function substitute(text: string, environment: Environment): string | EnvironmentText {
  if (!text.includes(REFERENCE_START)) return text;
  let references = 0;
  let fromEnvironment = false;
  const result = text.replace(REFERENCE, (match, name?: string, fallback?: string) => {
    if (match === '$${') return REFERENCE_START;
    if (name === undefined) {
      throw new Error(
        'holds ${ without a whole ${NAME} or ${NAME:-default}; for the two characters themselves write $${',
      );
    }
    references += 1;
    const value = Object.hasOwn(environment, name) ? environment[name] : undefined;
    if (value !== undefined && (value !== '' || fallback === undefined)) {
      fromEnvironment = true;
      return value;
    }
    if (fallback !== undefined) return fallback;
    throw new Error(
      `the environment variable ${name} is not set; set it, or give a default: \${${name}:-default}`,
    );
  });
  return references === 0 ? result : new EnvironmentText(result, fromEnvironment);
}
