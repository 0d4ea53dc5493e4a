import { describe, expect, test } from '@jest/globals';
import { FOLDER, load } from '../fake-files.ts';
import { CERTIFICATE, OTHER_CERTIFICATE, PRIVATE_KEY } from '../pem-samples.ts';

const HOUR = 3_600_000;

describe('a project', () => {
  test('takes from the common sections what it leaves out', () => {
    const { projects, engine } = load({
      yaml: `
engine: { url: "http://one.example/xmla", kind: mondrian, timeout: 10s }
cache: { ttl: 1h, share: everyone, functions: [Today] }
projects:
  Quiet:
  Calls: { functions: [Assembly.Fn] }
  Off: { cache: off }
  Short: { ttl: 5m, share: user }
  Elsewhere: { engine: { url: "http://two.example/xmla" } }
  2024: { ttl: 1d }
  constructor: { cache: off }
  __proto__: { cache: off }
`,
    });
    const functions = ['Today'];
    const common = {
      ...{ cache: 'on', ttl: HOUR, share: 'everyone', cubes: new Map(), stale_if_error: 0, engine },
      functions,
    };
    expect(projects).toEqual(
      new Map([
        ['Quiet', common],
        ['Calls', { ...common, functions: [...functions, 'Assembly.Fn'] }],
        ['Off', { ...common, cache: 'off' }],
        ['Short', { ...common, ttl: 300_000, share: 'user' }],
        ['Elsewhere', { ...common, engine: { ...engine, url: ['http://two.example/xmla'] } }],
        ['2024', { ...common, ttl: 24 * HOUR }],
        ['constructor', { ...common, cache: 'off' }],
        ['__proto__', { ...common, cache: 'off' }],
      ] as const),
    );
  });

  test('whose login needs no service account does not get that of the common engine', () => {
    const { projects } = load({
      yaml: `
engine: { login: service, service: { name: gateway, password: pw } }
projects:
  Same: { engine: { kind: ssas } }
  Own: { engine: { service: { name: other, password: wp } } }
  Without: { engine: { login: forward } }
`,
    });
    const services = [...projects].map(([name, { engine }]) => [name, engine.service]);
    expect(services).toEqual([
      ['Same', { name: 'gateway', password: 'pw' }],
      ['Own', { name: 'other', password: 'wp' }],
      ['Without', undefined],
    ]);
  });

  test('takes the client certificate and its key as a pair, and null takes nothing', () => {
    const { projects } = load({
      yaml: `
engine: { ca: one.pem, certificate: one.pem, key: one.key }
projects:
  Same: { engine: {} }
  Other: { engine: { certificate: two.pem, key: two.key } }
  None: { engine: { ca: null, certificate: null } }
`,
      files: {
        [`${FOLDER}/one.pem`]: CERTIFICATE,
        [`${FOLDER}/one.key`]: PRIVATE_KEY,
        [`${FOLDER}/two.pem`]: CERTIFICATE + OTHER_CERTIFICATE.replace(/^/, '# a comment\n'),
        [`${FOLDER}/two.key`]: PRIVATE_KEY,
      },
    });
    const pairs = [...projects.values()].map(({ engine: { ca, certificate, key } }) => [
      ca,
      certificate,
      key,
    ]);
    expect(pairs).toEqual([
      [`${FOLDER}/one.pem`, `${FOLDER}/one.pem`, `${FOLDER}/one.key`],
      [`${FOLDER}/one.pem`, `${FOLDER}/two.pem`, `${FOLDER}/two.key`],
      [undefined, undefined, undefined],
    ]);
  });
});

describe('the engine of a project', () => {
  const engineOf = (yaml: string) =>
    load({ yaml: `engine: ${yaml}\nprojects: { P: { engine: { kind: ssas } }, Q: {} }` });

  test('has the idle time of its kind, unless one is written', () => {
    const { engine, projects } = engineOf('{ kind: emondrian }');
    expect(engine.session_idle).toBe(HOUR);
    expect(projects.get('P')?.engine.session_idle).toBe(2_700_000);
    expect(projects.get('Q')?.engine.session_idle).toBe(HOUR);
    const written = engineOf('{ kind: emondrian, session_idle: 0 }');
    expect(written.engine.session_idle).toBeUndefined();
    expect(written.projects.get('Q')?.engine.session_idle).toBeUndefined();
  });

  test('lends the rights of a service account to nobody, unless that is written', () => {
    const service = 'login: service, service: { name: a, password: b }';
    expect(engineOf('{ login: none }').engine.delegation).toBe('forward');
    expect(engineOf(`{ ${service} }`).engine.delegation).toBe('refuse');
    expect(engineOf(`{ ${service} }`).projects.get('P')?.engine.delegation).toBe('refuse');
    expect(engineOf(`{ ${service}, delegation: forward }`).engine.delegation).toBe('forward');
    const { projects } = load({
      yaml: `engine: { delegation: forward }\nprojects: { P: { engine: { ${service} } } }`,
    });
    expect(projects.get('P')?.engine.delegation).toBe('refuse');
  });
});
