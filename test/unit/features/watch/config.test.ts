import { expect, test } from '@jest/globals';
import { load, mistakes } from '../../config/fake-files.ts';
import { CERTIFICATE } from '../../config/pem-samples.ts';

const project = (watch: string, engine = '') =>
  `projects: { a: { ${engine} watch: { ${watch} } } }`;
const ENGINE = (kind: string, login = 'none') => `engine: { kind: ${kind}, login: ${login} },`;

test('a watcher asks once a minute, purges at once and keeps the cache where the file does not say', () => {
  const { projects } = load({ yaml: project('kind: file, path: loaded') });
  expect(projects.get('a')?.watch).toMatchObject({
    kind: 'file',
    every: 60_000,
    min_interval: 0,
    when_blind: 'keep',
    path: expect.stringMatching(/^\/.*\/loaded$/),
  });
  expect(load({ yaml: 'projects: { a: {} }' }).projects.get('a')?.watch).toBeUndefined();
});

test.each([
  project('kind: xmla', ENGINE('ssas')),
  project('kind: xmla', ENGINE('mondrian')),
  project('kind: xmla', ENGINE('generic')),
  project('kind: xmla, user: u, password: p', ENGINE('ssas', 'forward')),
  project('kind: kylin, url: "http://k:7070/kylin", project: p, user: u, password: p'),
  project('kind: postgres, url: "postgres://u:p@db/dwh", query: SELECT 1, tls: true'),
  project('kind: url, url: "https://e/loaded?of=a", every: 1s, min_interval: 1d'),
  project('kind: file, path: /data/loaded, every: 1d, when_blind: bypass'),
])('is right: %s', (yaml) => {
  expect(mistakes({ yaml })).toEqual([]);
});

test.each([
  [project('every: 5s'), 'kind: is missing; must be one of xmla, kylin, postgres, url, file'],
  [project('kind: file'), 'path: is missing; kind: file needs it'],
  [project('kind: url'), 'url: is missing; kind: url needs it'],
  [project('kind: kylin, url: "http://k"'), 'project: is missing; kind: kylin needs it'],
  [
    project('kind: postgres, url: "postgres://u@h/d"'),
    'query: is missing; kind: postgres needs it',
  ],
  [project('kind: file, path: a, url: "http://e/"'), 'url: must not stand with kind: file'],
  [project('kind: file, path: a, user: u, password: p'), 'user: must not stand with kind: file'],
  [project('kind: xmla, path: a'), 'path: must not stand with kind: xmla'],
  [project('kind: url, url: "http://e/", tls: true'), 'tls: must not stand with kind: url'],
  [
    project('kind: url, url: "http://e/", user: u'),
    'password: is missing; user and password stand together',
  ],
  [
    project('kind: url, url: "postgres://u@h/d"'),
    'url: must be an http:// or https:// URL with kind: url',
  ],
  [
    project('kind: postgres, query: SELECT 1, url: "http://e/"'),
    'url: must be a postgres:// URL with kind: postgres',
  ],
  [
    project('kind: xmla', ENGINE('emondrian')),
    'kind: xmla sees no change of an engine of kind emondrian; use postgres, url or file',
  ],
  [
    project('kind: xmla', ENGINE('kylin')),
    'kind: xmla sees no change of an engine of kind kylin; use kylin, postgres, url or file',
  ],
  [
    project('kind: xmla', ENGINE('ssas', 'forward')),
    'user: is missing; xmla with engine.login: forward needs user and password',
  ],
  [
    project('kind: url, url: "http://e/", ca: one.pem'),
    'ca: needs an encrypted connection: tls: true with postgres, or an https:// URL',
  ],
  [
    project('kind: file, path: a, every: 100ms'),
    'every: must be a duration such as 12h, 30m or 45s, between 1s and 1d (got "100ms")',
  ],
])('is wrong: %s', (yaml, line) => {
  const files = { 'one.pem': CERTIFICATE };
  expect(mistakes({ yaml, files })).toContain(`projects.a.watch.${line}`);
});
