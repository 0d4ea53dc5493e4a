import { expect, test } from '@jest/globals';
import { ReplyError } from 'ioredis';
import { ConnectionProblem } from '../../../src/redis/redis-connections.ts';
import {
  CircuitOpenError,
  createRedisHealth,
  type Trouble,
} from '../../../src/redis/redis-health.ts';
import { checkpoint, quiet } from '../cache/fakes.ts';

const NO_CONNECTION = new Error("Stream isn't writeable and enableOfflineQueue options is false");
const REFUSED = Object.assign(new Error('connect ECONNREFUSED 10.0.0.7:6379'), {
  code: 'ECONNREFUSED',
});
const REFUSED_TROUBLE = { why: REFUSED.message, code: 'ECONNREFUSED' };

function setUp() {
  let up = false;
  let probe = async () => {};
  let paused = checkpoint();
  const told: (Trouble | undefined)[] = [];
  const outage = createRedisHealth({
    isConnected: () => up,
    probe: () => probe(),
    sleep: () => paused.arrive(),
    onChange: (trouble) => told.push(trouble),
  });
  return {
    outage,
    told,
    answer(next: () => Promise<void>) {
      probe = next;
    },
    be(state: 'up' | 'down') {
      up = state === 'up';
    },
    async endPause() {
      const { release } = paused;
      paused = checkpoint();
      release();
      await quiet();
    },
  };
}

test('an outage is told once, however many fail, and its end once', async () => {
  const { outage, told, be, endPause } = setUp();
  for (let count = 0; count < 5; count += 1) outage.failed(REFUSED);
  await endPause();
  outage.failed(new Error('Command timed out'));
  await endPause();
  expect(told).toEqual([REFUSED_TROUBLE]);
  expect(outage.trouble()).toEqual({ why: 'Command timed out', code: undefined });
  be('up');
  await endPause();
  expect(told).toEqual([REFUSED_TROUBLE, undefined]);
  expect(outage.trouble()).toBeUndefined();
  be('down');
  outage.failed(REFUSED);
  expect(told).toHaveLength(3);
});

test('a Redis that is connected and does not answer is an outage, until a probe is answered', async () => {
  const silence = new Error('Command timed out');
  const { outage, told, be, answer, endPause } = setUp();
  be('up');
  answer(() => Promise.reject(silence));
  await expect(outage.run(() => Promise.reject(silence))).rejects.toBe(silence);
  await quiet();
  const trouble = { why: 'Command timed out', code: undefined };
  expect([told, outage.state(), outage.trouble()]).toEqual([[trouble], 'down', trouble]);
  expect(outage.causeOf(new CircuitOpenError('not asked'))).toEqual(trouble);
  answer(async () => {});
  await endPause();
  expect([told, outage.state(), outage.trouble()]).toEqual([[trouble, undefined], 'up', undefined]);
});

test('that there is no connection is no cause: the next try to connect tells one', () => {
  const { outage, told } = setUp();
  outage.failed(NO_CONNECTION);
  expect(told).toEqual([]);
  outage.failed(REFUSED);
  outage.failed(NO_CONNECTION);
  expect(told).toEqual([REFUSED_TROUBLE]);
  expect(outage.causeOf(NO_CONNECTION)).toEqual(REFUSED_TROUBLE);
});

test('an outage whose cause nobody finds is told all the same', async () => {
  const { outage, told, endPause } = setUp();
  outage.failed(NO_CONNECTION);
  await endPause();
  expect(told).toEqual([{ why: 'the connection was lost', code: undefined }]);
});

test('a connection that is lost and made again at once is no outage', async () => {
  const { outage, told, be, endPause } = setUp();
  be('up');
  outage.failed(REFUSED);
  await endPause();
  expect(told).toEqual([]);
  // What was found out is not the cause of what comes later.
  expect(outage.causeOf(NO_CONNECTION).why).toBe('the connection was lost');
});

test('one of several nodes is an outage only when no other takes its place', async () => {
  const { outage, told, be, endPause } = setUp();
  outage.failed(REFUSED, true);
  expect(told).toEqual([]);
  be('up');
  await endPause();
  expect(told).toEqual([]);
  be('down');
  outage.failed(REFUSED, true);
  await endPause();
  expect(told).toEqual([REFUSED_TROUBLE]);
});

test('nothing is told when it is closed', async () => {
  const { outage, told, endPause } = setUp();
  outage.failed(NO_CONNECTION);
  outage.close();
  outage.failed(REFUSED);
  await endPause();
  expect(told).toEqual([]);
});

test.each([
  ['a code', REFUSED, REFUSED_TROUBLE],
  [
    'the word of the server',
    new ReplyError('WRONGPASS invalid username-password pair'),
    { why: 'WRONGPASS invalid username-password pair', code: 'WRONGPASS' },
  ],
  [
    'a server that wants a password, with the key to be set',
    new ReplyError('NOAUTH Authentication required.'),
    { why: 'NOAUTH Authentication required. Set cache.redis.password.', code: 'NOAUTH' },
  ],
  [
    'a certificate that is not trusted, with the key to be set',
    Object.assign(new Error('try running Node.js with --use-system-ca'), {
      code: 'DEPTH_ZERO_SELF_SIGNED_CERT',
    }),
    {
      why: expect.stringMatching(/authority that is not known.* as cache\.redis\.ca$/),
      code: 'DEPTH_ZERO_SELF_SIGNED_CERT',
    },
  ],
  [
    'the addresses of a host',
    Object.assign(new AggregateError([REFUSED, REFUSED], ''), { code: 'ECONNREFUSED' }),
    REFUSED_TROUBLE,
  ],
  [
    'the last node of a cluster',
    Object.assign(new Error('Failed to refresh slots cache.'), { lastNodeError: REFUSED }),
    REFUSED_TROUBLE,
  ],
  [
    'a command that the server does not know, which came with a password',
    new ReplyError("ERR unknown command 'AUTH', with args beginning with: 'user' 'a secret' "),
    { why: "ERR unknown command 'AUTH'", code: undefined },
  ],
  [
    'what a sentinel said',
    new ConnectionProblem('failed to connect to sentinel 10.0.0.7:1 because NOAUTH is needed'),
    { why: 'failed to connect to sentinel 10.0.0.7:1 because NOAUTH is needed', code: 'NOAUTH' },
  ],
  ['a text', 'a text', { why: 'a text', code: undefined }],
])('the cause is told by %s', (_what, error, trouble) => {
  expect(setUp().outage.causeOf(error)).toEqual(trouble);
});
