import { beforeAll, expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ensureDebianPackages } from '../support/debian-packages.ts';

/** Programs of others read the OpenAPI document that the gateway serves. */

const DOCUMENT = fileURLToPath(new URL('../../src/http/docs/openapi.json', import.meta.url));
const REDOCLY = fileURLToPath(
  new URL('../../node_modules/@redocly/cli/bin/cli.js', import.meta.url),
);
const JSONSCHEMA = '/usr/lib/python3/dist-packages/jsonschema/__init__.py';

/** Each example of a body, by its schema; prints how many there were. */
const VALIDATE = `
import json, sys
from jsonschema import Draft202012Validator

document = json.load(open(sys.argv[1]))
checked = 0

def examples(part):
    if isinstance(part, dict):
        if 'schema' in part:
            for example in [{'value': part['example']}] if 'example' in part else part.get('examples', {}).values():
                yield part['schema'], example['value']
        for name, inner in part.items():
            if name not in ('schema', 'example', 'examples'):
                yield from examples(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from examples(inner)

for schema, value in examples(document):
    whole = {**schema, 'components': document['components']}
    Draft202012Validator.check_schema(whole)
    Draft202012Validator(whole).validate(value)
    checked += 1

names = Draft202012Validator({'$ref': '#/components/schemas/RoleName', 'components': document['components']})
for name, right in [('Größe 😀', True), ('a', True), (' a', False), ('a\\u00a0', False), ('a\\u202eb', False), ('a\\tb', False)]:
    assert names.is_valid(name) == right, name
print(checked)
`;

/** What a program prints that has nothing to say against it. */
function contentOutput(command: string, args: readonly string[], input = ''): string {
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
  const { status, stdout, stderr } = spawnSync(command, args, { input, env, encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, expect.not.stringMatching(/warning|error/i)]);
  return stdout;
}

beforeAll(() => ensureDebianPackages([{ name: 'python3-jsonschema', probe: JSONSCHEMA }]), 300_000);

test('Redocly finds nothing by its recommended rules', () => {
  const args = [REDOCLY, 'lint', '--extends=recommended', '--format=json', DOCUMENT];
  const told = JSON.parse(contentOutput(process.execPath, args)) as { problems: unknown };
  expect(told.problems).toEqual([]);
});

test('the jsonschema package of Python finds every example valid', () => {
  const checked = contentOutput('/usr/bin/python3', ['-', DOCUMENT], VALIDATE);
  expect(Number(checked)).toBeGreaterThan(200);
});
