import type { IncomingMessage } from 'node:http';
import proxyAddr from 'proxy-addr';

/**
 * Whose request it is: the address of the connection, or, when that is a trusted proxy, the nearest address
 * in X-Forwarded-For that is none.
 * @param trusted IP addresses and CIDR ranges
 */
export function clientAddressReader(
  trusted: readonly string[],
): (request: IncomingMessage) => string {
  if (trusted.length === 0) return (request) => request.socket.remoteAddress ?? '';
  const isTrusted = proxyAddr.compile([...trusted]);
  return (request) => proxyAddr(request, isTrusted) ?? '';
}

/** Whether an address is that of a trusted proxy. */
export function trustedProxies(trusted: readonly string[]): (address: string) => boolean {
  const isTrusted = proxyAddr.compile([...trusted]);
  return (address) => isTrusted(address, 0);
}
