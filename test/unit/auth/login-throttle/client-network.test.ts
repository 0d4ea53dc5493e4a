import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { clientNetwork } from '../../../../src/auth/login-throttle.ts';
import { codePoint } from '../../../support/code-point.ts';

function address(groups: readonly number[]): string {
  return groups.map((group) => group.toString(16)).join(':');
}

describe('the network of a client', () => {
  test.each([
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:c000:0201', '192.0.2.1'],
    ['0:0:0:0:0:ffff:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2::1', '2001:db8:1:2::/64'],
    ['2001:DB8:1:2:ffff:ffff:ffff:ffff', '2001:db8:1:2::/64'],
    ['2001:0db8:0001:0002:0::', '2001:db8:1:2::/64'],
    ['2001:db8:1:3::1', '2001:db8:1:3::/64'],
    ['2001:db8::', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['', ''],
    ['unix:', 'unix:'],
    ['1:2', '1:2'],
  ])('of %j is %j', (address, network) => {
    expect(clientNetwork(address)).toBe(network);
  });

  const half = fc.array(fc.integer({ min: 1, max: 0xffff }), { minLength: 4, maxLength: 4 });
  test('is one for all addresses of a /64, and another for every other', () => {
    fc.assert(
      fc.property(half, half, half, half, (network, other, host, otherHost) => {
        fc.pre(address(network) !== address(other));
        const here = clientNetwork(address([...network, ...host]));
        expect(clientNetwork(address([...network, ...otherHost]).toUpperCase())).toBe(here);
        expect(clientNetwork(`${address(network)}::`)).toBe(here);
        expect(clientNetwork(address([...other, ...host]))).not.toBe(here);
      }),
    );
  });

  test('is found for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: codePoint }), (text) => {
        expect(typeof clientNetwork(text)).toBe('string');
      }),
    );
  });
});
