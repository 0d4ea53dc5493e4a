import { isAlias, isNode, isPair, isScalar, isSeq, LineCounter, parseDocument, visit } from 'yaml';
import type { ErrorCode } from 'yaml';
import type { KeyPath, Problem } from './problems.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Sources {
  readonly environment: Environment;
  /** Reads the file of `${file:PATH}`; returns undefined after a complaint. */
  readonly readText: (path: string, complain: (message: string) => void) => string | undefined;
}

/**
 * A text made from references. A key that wants a number takes it, while a quoted number is still a
 * mistake, and no message shows a value from outside.
 */
export class ReferenceText {
  readonly text: string;
  /** False for a text made only of defaults in the file. */
  readonly fromOutside: boolean;

  constructor(text: string, fromOutside: boolean) {
    this.text = text;
    this.fromOutside = fromOutside;
  }
}

/** Replaces the parser's messages, which quote the text: that may be a password. */
const YAML_MISTAKES: Partial<Record<ErrorCode, string>> = {
  BAD_ALIAS: 'aliases and anchors are not allowed',
  BAD_DIRECTIVE: 'this directive is unknown',
  BAD_DQ_ESCAPE:
    'no such escape sequence in double quotes; single quotes take a backslash as it is',
  BAD_INDENT: 'the indentation does not fit, or a bracket or brace is not closed',
  BAD_SCALAR_START: 'a value that begins with this character must stand in quotes',
  BLOCK_AS_IMPLICIT_KEY:
    'a second key on this line; a value that holds a colon must stand in quotes',
  DUPLICATE_KEY: 'this key stands twice in its mapping',
  MISSING_CHAR: 'a quote, bracket, brace, comma or colon is missing',
  MULTIPLE_DOCS: 'only one YAML document is allowed',
  NON_STRING_KEY: 'a key must be a plain word or a quoted text',
  RESOURCE_EXHAUSTION: 'the nesting is too deep',
  TAB_AS_INDENT: 'a tab cannot be used for indentation; use spaces',
  TAG_RESOLVE_FAILED: 'this tag is not allowed',
};
const SYNTAX = 'this is not YAML';
/** The deepest known key stands at 5 (projects, a name, engine, service, name). */
const DEEPEST = 16;
const CORE_TAG = /^tag:yaml\.org,2002:(?:str|int|float|bool|null|map|seq)$/;

/** Reads one document of the core schema, then replaces references, which so add no YAML. */
export function readYaml(text: string, sources: Sources, problems: Problem[]): unknown {
  const lineCounter = new LineCounter();
  const refuse = (offset: number | undefined, message: string, path: KeyPath = []): void => {
    const { line, col } = lineCounter.linePos(Math.max(0, offset ?? 0));
    problems.push({ path, message: `line ${line}, column ${col}: ${message}` });
  };
  const document = parseDocument(text, {
    version: '1.2',
    lineCounter,
    logLevel: 'error',
    merge: false,
    prettyErrors: false,
    resolveKnownTags: false,
    stringKeys: true,
  });
  const [mistake] = [...document.errors, ...document.warnings];
  if (mistake !== undefined) return refuse(mistake.pos[0], YAML_MISTAKES[mistake.code] ?? SYNTAX);
  if (document.directives?.yaml.version !== '1.2') {
    return refuse(0, 'the directive %YAML may only say 1.2');
  }
  visit(document, (role, node, ancestors) => {
    if (!isNode(node)) return undefined;
    const path = pathOf([...ancestors, node]);
    const skip = (message: string) => {
      refuse(node.range?.[0], message, path);
      return visit.SKIP;
    };
    if (isAlias(node) || node.anchor) return skip('aliases and anchors are not allowed');
    if (node.tag !== undefined && !CORE_TAG.test(node.tag)) return skip('this tag is not allowed');
    if (path.length > DEEPEST) return skip('the nesting is too deep');
    if (!isScalar(node) || typeof node.value !== 'string') return undefined;
    const complain = (message: string) => {
      problems.push({ path, message });
      return '';
    };
    if (role !== 'key') node.value = substitute(node.value, sources, complain);
    else if (node.value.includes('${'))
      complain('a key takes nothing from the environment or a file');
    return undefined;
  });
  return problems.length === 0 ? document.toJS() : undefined;
}

function pathOf(nodes: readonly unknown[]): KeyPath {
  return nodes.flatMap((node, index): KeyPath => {
    const outer = nodes[index - 1];
    if (isSeq(outer)) return [outer.items.indexOf(node)];
    return isPair(node) && isScalar(node.key) ? [String(node.key.value)] : [];
  });
}

const NO_REFERENCE =
  'holds ${ without a whole ${NAME}, ${NAME:-default} or ${file:PATH}; for the two characters themselves write $${';
const REFERENCE = /\$\$\{|\$\{(?:file:([^}]+)\}|([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?/g;

/**
 * Replaces the references in a scalar once. An empty variable takes the default, as in a shell.
 * `$${` stands for `${`.
 * @param complain takes the rest of a sentence about the value; returns an empty text
 */
function substitute(
  text: string,
  { environment, readText }: Sources,
  complain: (message: string) => string,
): string | ReferenceText {
  let references = 0;
  let fromOutside = false;
  const result = text.replace(
    REFERENCE,
    (match, file?: string, name?: string, fallback?: string) => {
      if (match === '$${') return '${';
      references += 1;
      if (file !== undefined) {
        fromOutside = true;
        const content = readText(file, (message) => complain(`the file ${file} ${message}`));
        // Editors, `echo` and `openssl rand` end a line; secret stores do not.
        return content?.replace(/\r?\n$/, '') ?? '';
      }
      if (name === undefined) return complain(NO_REFERENCE);
      const value = Object.hasOwn(environment, name) ? environment[name] : undefined;
      if (value !== undefined && (value !== '' || fallback === undefined)) {
        fromOutside = true;
        return value;
      }
      const advice = `set it, or give a default: \${${name}:-default}`;
      return fallback ?? complain(`the environment variable ${name} is not set; ${advice}`);
    },
  );
  return references === 0 ? result : new ReferenceText(result, fromOutside);
}
