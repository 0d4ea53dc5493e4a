import { connect } from 'node:net';

/** How long a probe of a port may take (ms). */
const PROBE_TIMEOUT = 2_000;

/** Whether a connection to the port of an upstream can be made. Never rejects. */
export function acceptsConnections(origin: URL): Promise<boolean> {
  const port = Number(origin.port) || (origin.protocol === 'https:' ? 443 : 80);
  const host = origin.hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: PROBE_TIMEOUT });
    const decide = (accepted: boolean) => {
      socket.destroy();
      resolve(accepted);
    };
    socket.once('connect', () => decide(true));
    socket.once('timeout', () => decide(false));
    socket.once('error', () => decide(false));
  });
}
