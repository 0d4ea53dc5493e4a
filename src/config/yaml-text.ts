/** From the text of a configuration file to plain data, with the environment put in. */

import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import type { ErrorCode, Node, Pair, YAMLError } from 'yaml';
import { REFERENCE_START, substitute } from './environment-text.ts';
import type { Environment } from './environment-text.ts';
import type { KeyPath, Problem } from './problems.ts';

/**
 * The parser's own messages quote the text around a mistake, which may be a password. These do not.
 * A code that is missing here is told as `SYNTAX`.
 */
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

/** The deepest known key stands at 4 (projects, a name, engine, service, name). */
const DEEPEST = 16;

const CORE_TAG = /^tag:yaml\.org,2002:(?:str|int|float|bool|null|map|seq)$/;

export type YamlReading =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Reads one YAML 1.2 document of the core schema. Mappings become objects without a prototype. Anchors,
 * aliases, tags of one's own, duplicate keys and further documents are mistakes. References to the environment
 * are replaced after parsing, in values only, so a variable can never bring in YAML.
 */
export function readYaml(text: string, environment: Environment): YamlReading {
  const lineCounter = new LineCounter();
  const at = (offset: number | undefined, message: string, path: KeyPath = []): Problem => {
    const { line, col } = lineCounter.linePos(Math.max(0, offset ?? 0));
    return { path, message: `line ${line}, column ${col}: ${message}` };
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
  const [mistake]: YAMLError[] = [...document.errors, ...document.warnings];
  if (mistake !== undefined) {
    return {
      ok: false,
      problems: [at(mistake.pos[0], YAML_MISTAKES[mistake.code] ?? SYNTAX)],
    };
  }
  if (document.directives?.yaml.version !== '1.2') {
    return { ok: false, problems: [at(0, 'the directive %YAML may only say 1.2')] };
  }

  const problems: Problem[] = [];

  function readNode(node: Node | null, path: KeyPath): unknown {
    if (node === null) return null;
    const complain = (message: string) => {
      problems.push(at(node.range?.[0], message, path));
      return undefined;
    };
    if (isAlias(node) || node.anchor !== undefined) {
      return complain('aliases and anchors are not allowed');
    }
    if (node.tag !== undefined && !CORE_TAG.test(node.tag))
      return complain('this tag is not allowed');
    if (path.length > DEEPEST) return complain('the nesting is too deep');
    if (isMap<Node, Node | null>(node)) return readMapping(node.items, path);
    if (isSeq<Node>(node)) return node.items.map((item, index) => readNode(item, [...path, index]));
    if (!isScalar(node) || typeof node.value !== 'string')
      return isScalar(node) ? node.value : null;
    try {
      return substitute(node.value, environment);
    } catch (error) {
      problems.push({ path, message: error instanceof Error ? error.message : String(error) });
      return undefined;
    }
  }

  function readMapping(pairs: readonly Pair<Node, Node | null>[], path: KeyPath) {
    const result = Object.create(null) as Record<string, unknown>;
    for (const { key, value } of pairs) {
      const name = isScalar(key) ? String(key.value) : '';
      const { anchor } = key as { anchor?: string };
      if (anchor !== undefined) {
        problems.push(at(key.range?.[0], 'aliases and anchors are not allowed', [...path, name]));
      }
      if (name.includes(REFERENCE_START)) {
        problems.push({
          path: [...path, name],
          message: 'a key takes nothing from the environment',
        });
      }
      result[name] = readNode(value, [...path, name]);
    }
    return result;
  }

  const value = readNode(document.contents, []);
  return problems.length > 0 ? { ok: false, problems } : { ok: true, value };
}
