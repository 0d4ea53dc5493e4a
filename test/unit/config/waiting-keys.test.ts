import { expect, test } from '@jest/globals';
import { keysThatWait } from '../../../src/config/describe-config.ts';
import { FOLDER, load } from './fake-files.ts';
import { CERTIFICATE, OTHER_CERTIFICATE, OTHER_KEY, PRIVATE_KEY } from './pem-samples.ts';

const files = {
  [`${FOLDER}/a.pem`]: CERTIFICATE,
  [`${FOLDER}/a.key`]: PRIVATE_KEY,
  [`${FOLDER}/b.pem`]: OTHER_CERTIFICATE,
  [`${FOLDER}/b.key`]: OTHER_KEY,
};
const HTTPS = 'listen: { certificate: a.pem, key: a.key }';

test.each([
  ['', '', []],
  ['', 'listen: { host: "::", port: 0, open: [docs] }', ['listen.host', 'listen.port']],
  ['workers: 2\nlog: { level: warn }', '', ['workers', 'log.level']],
  [
    'limits: { head: 8KiB, head_timeout: 20s, body: 1MiB }',
    '',
    ['limits.head', 'limits.head_timeout'],
  ],
  [
    '',
    'auth: { purgers: [x] }\nengine: { kind: ssas }\ncache: { ttl: 1h }\nprojects: { A: { cache: off } }',
    [],
  ],
  ['', HTTPS, ['https']],
  [HTTPS, '', ['https']],
  [HTTPS, 'listen: { certificate: b.pem, key: b.key }', []],
])('of a change from %j to %j wait for a restart: %j', (running, next, keys) => {
  const [one, other] = [load({ yaml: running, files }), load({ yaml: next, files })];
  expect(keysThatWait(one, other)).toEqual(keys);
});
