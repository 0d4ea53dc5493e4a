import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { readFileSync } from 'node:fs';
import { renderOpenApi } from '../../../scripts/generate-openapi.ts';
import { API_OPERATIONS } from '../../../src/api/api.ts';
import { API_REASONS, GATEWAY_REASONS } from '../../../src/common/reasons.ts';
import { dereferenced } from '../../support/openapi-check.ts';
import {
  type Answer,
  type Answers,
  describedInterface,
  type Header,
  type MediaType,
  type Operation,
  type Parameter,
  type Schema,
} from '../../support/openapi-types.ts';

const document = describedInterface();
const sent = document as unknown as Readonly<Record<string, unknown>>;

const METHODS = ['get', 'put', 'post', 'delete'] as const;

const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  METHODS.flatMap((method) => {
    const operation: Operation | undefined = item[method];
    return operation === undefined ? [] : [{ path, method, item, operation }];
  }),
);

/** All groups of answers, each with where it stands. */
const groups: readonly (readonly [where: string, answers: Answers])[] = [
  ...operations.map(
    ({ path, method, operation }) => [`${method} ${path}`, operation.responses] as const,
  ),
  ...Object.entries(document.paths).map(
    ([path, item]) => [`other methods of ${path}`, item['x-other-methods']] as const,
  ),
  ...document['x-other-paths'].map(
    ({ prefix, responses }) => [`other paths at ${prefix}`, responses] as const,
  ),
];

const answers = groups.flatMap(([where, group]) =>
  Object.entries(group).map(
    ([status, answer]) => [`${where} ${status}`, status, dereferenced<Answer>(answer)] as const,
  ),
);

/** Every object of the document, with its place. */
function* objectsOf(value: unknown, place = '#'): Generator<[string, Record<string, unknown>]> {
  if (typeof value !== 'object' || value === null) return;
  yield [place, value as Record<string, unknown>];
  for (const [key, inner] of Object.entries(value)) yield* objectsOf(inner, `${place}/${key}`);
}

describe('the document', () => {
  test('is OpenAPI 3.1', async () => {
    const result = await new Validator().validate(structuredClone(sent));
    expect(result.errors).toBeUndefined();
    expect(result.valid).toBe(true);
  });

  test('is made from docs/openapi.yaml by scripts/generate-openapi.ts, and up to date', () => {
    const served = new URL('../../../src/http/docs/openapi.json', import.meta.url);
    expect(readFileSync(served, 'utf8')).toBe(renderOpenApi());
  });

  test('refers to what is there, and has nothing that nobody refers to', () => {
    const refs = [...objectsOf(sent)].flatMap(([, { $ref }]) =>
      typeof $ref === 'string' ? [$ref] : [],
    );
    const { schemas, responses, headers } = document.components;
    const places = { schemas, responses, headers };
    const there = [
      ...Object.entries(places).flatMap(([kind, parts]) =>
        Object.keys(parts).map((name) => `#/components/${kind}/${name}`),
      ),
      ...Object.keys(document['x-responses']).map((name) => `#/x-responses/${name}`),
    ];
    expect([...new Set(refs)].sort()).toEqual(there.sort());
  });

  test('has patterns that every tool reads: without classes of Unicode, and with or without its mode', () => {
    const patterns = [...objectsOf(sent)].flatMap(([, { pattern }]) =>
      typeof pattern === 'string' ? [pattern] : [],
    );
    expect(patterns.length).toBeGreaterThan(20);
    for (const pattern of patterns) {
      expect(pattern).not.toMatch(/\\[pPuk]\{|\(\?[=!<]/);
      expect(() => [new RegExp(pattern), new RegExp(pattern, 'u')]).not.toThrow();
    }
  });

  test('has somebody to ask, and of every operation a success and a failure of the client', () => {
    expect(sent['info']).toMatchObject({ contact: { name: expect.stringMatching(/./) } });
    for (const { path, method, operation } of operations) {
      const kinds = Object.keys(operation.responses).map((status) => status.at(0));
      expect([method, path, kinds]).toEqual([method, path, expect.arrayContaining(['2', '4'])]);
    }
  });

  test('gives every operation a name of its own, a known tag, and words', () => {
    const names = operations.map(({ operation }) => operation.operationId);
    expect(new Set(names).size).toBe(names.length);
    const tags = document.tags.map(({ name }) => name);
    for (const { operation } of operations) {
      expect(tags).toContain(operation.tags[0]);
      expect(operation.summary).not.toBe('');
      expect(operation.description).not.toBe('');
    }
  });

  test('describes exactly the parameters that stand in a path', () => {
    for (const { path, item, operation } of operations) {
      const named = [...(item.parameters ?? []), ...(operation.parameters ?? [])]
        .filter((parameter) => parameter.in === 'path')
        .map(({ name }) => `{${name}}`);
      expect([path, named]).toEqual([path, path.match(/\{\w+\}/g) ?? []]);
    }
  });
});

test('every operation of the API is described, and nothing else below /api', () => {
  const described = operations.filter(({ path }) => path.startsWith('/api/'));
  const inWords = ({ name, method, path }: (typeof API_OPERATIONS)[number]) =>
    `${name} ${method} /api${path.replaceAll(/:(\w+)/g, '{$1}')}`;
  expect(
    described
      .map(({ path, method, operation }) =>
        [operation.operationId, method.toUpperCase(), path].join(' '),
      )
      .sort(),
  ).toEqual(API_OPERATIONS.map(inWords).sort());
  for (const { operation } of described) {
    const changes = API_OPERATIONS.find(({ name }) => name === operation.operationId)?.changes;
    const refusal = JSON.stringify(dereferenced(operation.responses['403'] as Answer));
    expect(refusal).toContain('`identity-refused`');
    expect(refusal.includes('`forbidden`')).toBe(changes !== undefined);
  }
});

describe('failures', () => {
  /** The words of an answer, by the examples that it gives. */
  const wordsOf = (answer: Answer) =>
    Object.values(answer.content ?? {}).flatMap(({ examples = {} }) => Object.keys(examples));
  const failures = answers.filter(([, status]) => Number(status) >= 400);
  const told = failures.filter(([, , answer]) => wordsOf(answer).length > 0);

  test('are all told by words, but a gateway that is not ready or shuts down', () => {
    const silent = failures.filter((failure) => !told.includes(failure)).map(([where]) => where);
    expect(silent).toEqual(['get /health/serving 503', 'get /health/ready 503']);
  });

  test('stand under the status of their words', () => {
    const reasons: Readonly<Record<string, readonly [number, string]>> = {
      ...GATEWAY_REASONS,
      ...API_REASONS,
    };
    for (const [where, status, answer] of told) {
      for (const word of wordsOf(answer)) {
        expect([where, word, reasons[word]?.[0]]).toEqual([where, word, Number(status)]);
      }
    }
  });

  test('are those of the program: every word but that of clients who never hear it, and that of no failure', () => {
    const withEngines = answers.filter(([where]) => /^post \/mdx\/xmla\S* 200$/.test(where));
    const words = new Set([...told, ...withEngines].flatMap(([, , answer]) => wordsOf(answer)));
    const all = Object.keys({ ...GATEWAY_REASONS, ...API_REASONS });
    const others = all.filter((word) => !['client-gone', 'preflight'].includes(word));
    expect([...words].sort()).toEqual(others.sort());
  });

  test('ask for credentials where there are none, and say when to come back', () => {
    for (const [where, status, answer] of told) {
      const needed = { 401: 'WWW-Authenticate', 405: 'Allow', 429: 'Retry-After' }[status];
      if (needed !== undefined) {
        expect([where, Object.keys(answer.headers ?? {})]).toEqual([
          where,
          expect.arrayContaining([needed]),
        ]);
      }
    }
  });
});

describe('every example', () => {
  const validator = (unicodeRegExp: boolean) => {
    const ajv = new Ajv2020({
      allErrors: true,
      strict: true,
      strictRequired: false,
      unicodeRegExp,
    });
    ajv.addKeyword('components');
    return ajv.addSchema({ $id: 'http://document/', components: sent['components'] });
  };

  const samples: (readonly [where: string, schema: Schema, value: unknown])[] = [];
  const addMedia = (where: string, content: Readonly<Record<string, MediaType>> = {}) => {
    for (const [type, { schema, example, examples = {} }] of Object.entries(content)) {
      const values = [
        ...(example === undefined ? [] : [example]),
        ...Object.values(examples).map(({ value }) => value),
      ];
      for (const value of values) samples.push([`${where} ${type}`, schema ?? {}, value]);
    }
  };
  const addParameter = (where: string, { name, schema, example }: Parameter) => {
    if (example !== undefined) samples.push([`${where} ${name}`, schema, example]);
  };
  for (const [where, , answer] of answers) {
    addMedia(where, answer.content);
    for (const [name, header] of Object.entries(answer.headers ?? {})) {
      const { schema, example } = dereferenced<Header>(header);
      samples.push([`${where} ${name}`, schema, example]);
    }
  }
  for (const { path, method, item, operation } of operations) {
    const where = `${method} ${path}`;
    addMedia(`${where} request`, operation.requestBody?.content);
    for (const parameter of [...(item.parameters ?? []), ...(operation.parameters ?? [])]) {
      addParameter(where, parameter);
    }
  }

  test.each([
    ['', true],
    [', also to a tool without the Unicode mode of patterns', false],
  ])('is valid by its schema%s', (_, unicodeRegExp) => {
    const ajv = validator(unicodeRegExp);
    expect(samples.length).toBeGreaterThan(200);
    const wrong = samples.flatMap(([where, schema, value]) => {
      const validate = ajv.compile(inDocument(schema));
      return validate(value) ? [] : [[where, value, validate.errors]];
    });
    expect(wrong).toEqual([]);
  });

  test('is there for every JSON body', () => {
    const contents = [
      ...answers.map(([where, , answer]) => [where, answer.content] as const),
      ...operations.map(
        ({ path, operation }) => [`request to ${path}`, operation.requestBody?.content] as const,
      ),
    ];
    const without = contents.flatMap(([where, content]) => {
      const media = content?.['application/json'];
      return media === undefined || (media.example ?? media.examples) !== undefined ? [] : [where];
    });
    expect(without).toEqual(['get /openapi.json 200']);
  });
});

/** References of a piece of the document, when it stands alone. */
function inDocument(schema: Schema): Schema {
  return JSON.parse(
    JSON.stringify(schema).replaceAll('"#/components', '"http://document/#/components'),
  ) as Schema;
}
