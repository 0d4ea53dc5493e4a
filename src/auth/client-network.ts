import { isIPv6, SocketAddress } from 'node:net';

/**
 * What counts as one client for throttling: an IPv4 address, also when it is written as IPv4-mapped IPv6
 * (RFC 4291 §2.5.5.2), or the /64 network of an IPv6 address, because a single host commonly has all of its
 * addresses (RFC 6177 §2). Anything else counts as the text that it is.
 */
export function clientNetwork(address: string): string {
  const plain = address.replace(/%.*$/s, '');
  if (!isIPv6(plain)) return plain;
  // In the one spelling of RFC 5952, where only a mapped address (and ::/96) ends in dotted decimals.
  const { address: canonical } = new SocketAddress({ address: plain, family: 'ipv6' });
  const mapped = /^::ffff:(\d+\.[\d.]+)$/.exec(canonical)?.[1];
  if (mapped !== undefined) return mapped;
  const [left = [], right = []] = canonical
    .split('::')
    .map((half) => half.split(':').filter((group) => group !== ''));
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => '0');
  return `${[...left, ...zeros, ...right].slice(0, 4).join(':')}::/64`;
}
