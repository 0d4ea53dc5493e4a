import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { UpstreamTls } from './upstream-agent.ts';

/** How a connection to an upstream is made: `done` is called once, when it stands, with TLS where that is spoken, or cannot. */
type Connector = (
  done: (...made: [error: Error, socket: null] | [error: undefined, socket: Socket]) => void,
) => Socket;

/** @param tls how TLS is spoken; undefined for none. Its sessions are taken up again */
export function createConnector(origin: URL, tls: UpstreamTls | undefined): Connector {
  const host = origin.hostname.replace(/^\[|\]$/g, '');
  const port = Number(origin.port) || (tls === undefined ? 80 : 443);
  const options = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 1_000 };
  const ofTls = {
    ...options,
    ...tls,
    servername: isIP(host) ? '' : host,
    ALPNProtocols: ['http/1.1'],
  };
  let session: Buffer | undefined;

  return (done) => {
    let told = false;
    const socket =
      tls === undefined
        ? connectTcp(options)
        : connectTls({ ...ofTls, ...(session && { session }) });
    const tell: typeof done = (...made) => {
      if (told) return;
      told = true;
      done(...made);
    };
    socket.on('session', (next: Buffer) => {
      session = next;
    });
    socket.once(tls === undefined ? 'connect' : 'secureConnect', () => tell(undefined, socket));
    socket.on('error', (error) => {
      session = undefined;
      tell(error, null);
    });
    return socket;
  };
}
