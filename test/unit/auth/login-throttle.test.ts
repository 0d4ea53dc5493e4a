import { describe, expect, test } from '@jest/globals';
import { createLoginThrottle } from '../../../src/auth/login-throttle.ts';
import { createTestClock } from './support.ts';

const HERE = '192.0.2.1';
const ELSEWHERE = '198.51.100.7';

function setUp(options = {}) {
  const clock = createTestClock();
  return { clock, throttle: createLoginThrottle({ clock, ...options }) };
}

describe('the login throttle', () => {
  test('lets ten failures of one user from one client pass, then one in six seconds', () => {
    const { clock, throttle } = setUp();
    for (let i = 0; i < 10; i += 1) expect(throttle.admit('A', HERE)).toBe(0);
    expect(throttle.admit('A', HERE)).toBe(6);
    clock.advance(4_500);
    expect(throttle.admit('A', HERE)).toBe(2);
    clock.advance(1_500);
    expect(throttle.admit('A', HERE)).toBe(0);
    expect(throttle.admit('A', HERE)).toBe(6);
  });

  test('gives all ten back after a quiet minute, and no more than ten after a quiet day', () => {
    const { clock, throttle } = setUp();
    for (let i = 0; i < 10; i += 1) throttle.admit('A', HERE);
    for (const quiet of [60_000, 86_400_000]) {
      clock.advance(quiet);
      const admitted = Array.from({ length: 15 }, () => throttle.admit('A', HERE));
      expect(admitted.filter((wait) => wait === 0)).toHaveLength(10);
    }
  });

  test('does not hold a user responsible for what others do elsewhere', () => {
    const { throttle } = setUp();
    for (let i = 0; i < 1000; i += 1) throttle.admit('A', ELSEWHERE);
    expect(throttle.admit('A', HERE)).toBe(0);
  });

  test('holds a client responsible for all failures, whatever the names, and tells of the last one', () => {
    const { throttle, clock } = setUp();
    for (let i = 0; i < 100; i += 1) {
      expect(throttle.admit(`user ${i}`, HERE)).toBe(0);
      expect(throttle.failed(`user ${i}`, HERE)).toBe(i < 99 ? 0 : 1);
    }
    expect(throttle.admit('another', HERE)).toBe(1);
    expect(throttle.admit('another', ELSEWHERE)).toBe(0);
    clock.advance(600);
    expect(throttle.admit('another', HERE)).toBe(0);
  });

  test('does not hold a client responsible for what is under way', () => {
    const { throttle } = setUp();
    for (let i = 0; i < 1000; i += 1) expect(throttle.admit(`user ${i}`, HERE)).toBe(0);
  });

  test('what failed together beyond that must be waited for', () => {
    const { clock, throttle } = setUp();
    for (let i = 0; i < 110; i += 1) throttle.admit(`user ${i}`, HERE);
    for (let i = 0; i < 110; i += 1) throttle.failed(`user ${i}`, HERE);
    clock.advance(6_000);
    expect(throttle.admit('another', HERE)).toBe(1);
    clock.advance(600);
    expect(throttle.admit('another', HERE)).toBe(0);
  });

  test('counts a whole IPv6 /64 and an IPv4-mapped address as one client', () => {
    const { throttle } = setUp();
    for (let i = 0; i < 10; i += 1) expect(throttle.admit('A', `2001:db8::${i}`)).toBe(0);
    expect(throttle.admit('A', '2001:db8::ffff')).toBe(6);
    for (let i = 0; i < 10; i += 1) expect(throttle.admit('A', HERE)).toBe(0);
    expect(throttle.admit('A', `::ffff:${HERE}`)).toBe(6);
  });

  test('a right password forgets the failures of this user from this client, and of nobody else', () => {
    const { throttle } = setUp();
    for (let i = 0; i < 10; i += 1) throttle.admit('B', HERE);
    for (let i = 0; i < 10; i += 1) throttle.admit('A', HERE);
    throttle.succeeded('A', HERE);
    expect(throttle.admit('A', HERE)).toBe(0);
    expect(throttle.admit('B', HERE)).toBe(6);
  });

  test('a right password gives the client none of its failures back', () => {
    const { throttle } = setUp();
    for (let i = 0; i < 100; i += 1) throttle.failed(`user ${i}`, HERE);
    throttle.succeeded('user 0', HERE);
    expect(throttle.admit('x', HERE)).toBe(1);
  });

  test('an attempt that came to nothing is given back', () => {
    const { throttle } = setUp();
    for (let i = 0; i < 1000; i += 1) {
      expect(throttle.admit('A', HERE)).toBe(0);
      throttle.abandoned('A', HERE);
    }
  });

  test('does not mix names and clients up', () => {
    const { throttle } = setUp();
    for (let i = 0; i < 10; i += 1) throttle.admit('A', 'B","C');
    expect(throttle.admit('A","B', 'C')).toBe(0);
  });

  test('takes only as much memory as it was given, whatever is tried', () => {
    const { throttle } = setUp({ max: 5 });
    for (let i = 0; i < 10; i += 1) throttle.admit('A', HERE);
    for (let i = 0; i < 5; i += 1) throttle.admit(`name ${i}`, ELSEWHERE);
    expect(throttle.admit('A', HERE)).toBe(0);
  });
});
