import { isIP } from 'node:net';
import { compile } from 'proxy-addr';
import * as kinds from '../settings/kinds.ts';
import { key, list, orNull, section, type ValueOf, type ValuesOf } from '../settings/setting.ts';

const HOST_NAME = /^(?!-)[A-Za-z0-9-]{1,63}(?:\.(?!-)[A-Za-z0-9-]{1,63})*$/;
/** Refuses a name of digits and dots that is no address: it would only fail later. */
const listenHost = kinds.textKind(
  'host',
  'an IP address or a host name such as 127.0.0.1, 0.0.0.0, :: or localhost',
  (text) =>
    isIP(text) !== 0 || (text.length <= 253 && HOST_NAME.test(text) && !/^[\d.]+$/.test(text)),
);

const NAMED_RANGES = ['loopback', 'linklocal', 'uniquelocal'];
const addressRange = kinds.textKind(
  'address range',
  `an IP address or range such as 10.0.0.0/8 or fd00::/8, or one of ${NAMED_RANGES.join(', ')}`,
  (text) => {
    // proxy-addr also reads old short forms: 10 means 0.0.0.10.
    if (!NAMED_RANGES.includes(text) && isIP(text.replace(/\/.*/s, '')) === 0) return false;
    try {
      compile([text]);
      return true;
    } catch {
      return false;
    }
  },
);

export const listenKeys = {
  /** The address on which the gateway listens. */
  host: key(listenHost, '127.0.0.1', 'restart'),
  /** The port on which the gateway listens. 0 lets the system choose. */
  port: key(kinds.integer(0, 65_535), 7080, 'restart'),
  /** Pages that need no login. /health/live and /health/serving are always open and say only up or
   * down. */
  open: list(kinds.choice('metrics', 'health', 'docs'), []),
  /** A PEM file with the certificate of the gateway and its chain. Set certificate and key
   * together; with them the gateway speaks HTTPS only. */
  certificate: orNull(kinds.filePath, 'https'),
  /** A PEM file with the private key of the certificate, without a passphrase. */
  key: orNull(kinds.filePath, 'https'),
  /** Proxies in front of the gateway whose X-Forwarded-For is believed. The limit of
   * limits.connections for one client address does not apply to them. */
  trusted_proxies: list(addressRange, []),
};

export type ListenConfig = ValuesOf<typeof listenKeys>;
export type OpenPage = ListenConfig['open'][number];

export const limits = section({
  /** The largest request body, after its content coding is removed. */
  body: key(kinds.size('1KiB', '256MiB'), '10MiB'),
  /** The largest dataset document, after its content coding is removed. At most eight are received
   * and eight are sent at one time, and four of these may be in memory up to five times. So
   * datasets may take 32 times as much memory as this. One user gets at most two of these
   * places. */
  dataset: key(kinds.size('1KiB', '256MiB'), '32MiB'),
  /** How many requests may be at the engine at one time. */
  concurrency: key(kinds.integer(1, 10_000), 64),
  /** How many of these requests may be of one user; with workers, this counts for each worker. */
  per_user: key(kinds.integer(1, 10_000), 16),
  /** How much memory the bodies of XMLA requests and answers under way may take, beside
   * cache.memory. When it is used up, answers are passed on without being stored; requests wait for
   * limits.wait at most, and are then refused. One user gets at most three quarters of it; a
   * sixteenth is kept for requests of up to 64 KiB. Not smaller than limits.body. null: 128MiB, or
   * less as with cache.memory. */
  in_flight: orNull(kinds.size('16MiB', '64GiB')),
  /** How many more requests may wait for the engine, and how many for memory (in_flight). Further
   * ones are refused. One user gets at most three quarters of these places. */
  queue: key(kinds.integer(0, 100_000), 256),
  /** How long a request may wait in all until it reaches the engine: for memory, for a place at the
   * engine, and for another gateway that asks the same. Then it is refused. If another request of
   * this gateway asks the same, it waits for that one until the engine has been silent for
   * engine.timeout. limits.wait and engine.timeout together are the longest time until an answer
   * begins. null: as long as engine.timeout. */
  wait: orNull(kinds.duration('1s', '1h')),
  /** How many new projects and catalogs one user may name in an hour, at each process; further ones
   * bypass the cache. Configured names, and those answered without a Fault, do not count. */
  names_per_user: key(kinds.integer(1, 1_000_000), 1_000),
  /** How many connections may be open. Set it above the number of clients: if a connection is
   * closed just when its client sends a request, that request is lost. At the limit, idle
   * connections are closed to make room for new ones: first those of the client address that has
   * most of them, the longest unused first. When all are busy, the gateway closes one whose client
   * has not sent its body, or not read its answer, for a second: the newest one of the address that
   * has most of these. When there is none either, new connections are closed. null: as many as fit
   * in 160 MiB, or in a quarter of the heap limit of Node.js or an eighth of the container's memory
   * limit if that is less, at twice limits.head and 24 KiB each (96 KiB with HTTPS). */
  connections: orNull(kinds.integer(1, 1_000_000)),
  /** The largest head of a request. A longer one gets 431; so does one of more than 200 headers.
   * Set 64KiB if clients send large Kerberos tokens of Windows, so that they get the answer that
   * these are not accepted. */
  head: key(kinds.size('1KiB', '256KiB'), '16KiB', 'restart'),
  /** How long the head of a request may take, from the opening of its connection or from its first
   * byte; a TLS handshake may take as long. After that the connection is closed. */
  head_timeout: key(kinds.duration('1s', '5m'), '10s', 'restart'),
});

export type LimitsConfig = Omit<ValueOf<typeof limits>, 'in_flight' | 'connections'> &
  Readonly<Record<'in_flight' | 'connections', number>>;
