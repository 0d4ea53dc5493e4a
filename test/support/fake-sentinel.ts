import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { until } from './http-client.ts';

/** A sentinel that names one master, as slowly as a test wants it to. */
export interface FakeSentinel {
  readonly port: number;
  /** How often it was asked for the master. */
  asked(): number;
  /** Connections that are to hear of a new master. */
  listeners(): number;
  /** Lets whoever asks for the master wait, until what it returns is called. */
  hold(): () => void;
  /** Tells that there is a new master, and resolves when all who have heard it have gone. */
  tellSwitch(): Promise<void>;
  close(): Promise<void>;
}

const SWITCH = '+switch-master';

/** @param masterPort on 127.0.0.1 */
export async function startFakeSentinel(masterPort: number): Promise<FakeSentinel> {
  const sockets = new Set<Socket>();
  const listening = new Set<Socket>();
  let asked = 0;
  let held: (() => void)[] | undefined;

  function answer(socket: Socket, [name = '', ...rest]: readonly string[]): void {
    switch (`${name} ${name === 'sentinel' ? rest[0] : ''}`.trim()) {
      case 'sentinel get-master-addr-by-name': {
        asked += 1;
        const tell = () => socket.write(bulks('127.0.0.1', String(masterPort)));
        if (held === undefined) tell();
        else held.push(tell);
        return;
      }
      case 'sentinel sentinels':
        socket.write('*0\r\n');
        return;
      case 'subscribe':
        listening.add(socket);
        socket.write(`*3\r\n${bulk('subscribe')}${bulk(SWITCH)}:1\r\n`);
        return;
      case 'hello':
        socket.write("-ERR unknown command 'HELLO'\r\n");
        return;
      default:
        socket.write('+OK\r\n');
    }
  }

  const server = createServer((socket) => {
    sockets.add(socket);
    let text = '';
    socket.setEncoding('latin1').on('data', (piece: string) => {
      text += piece;
      for (let read = firstCommand(text); read !== undefined; read = firstCommand(text)) {
        text = text.slice(read.length);
        answer(socket, [(read.words[0] ?? '').toLowerCase(), ...read.words.slice(1)]);
      }
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      sockets.delete(socket);
      listening.delete(socket);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  return {
    port: (server.address() as AddressInfo).port,
    asked: () => asked,
    listeners: () => listening.size,
    hold() {
      const waiting: (() => void)[] = [];
      held = waiting;
      return () => {
        held = undefined;
        for (const tell of waiting) tell();
      };
    },
    async tellSwitch() {
      for (const socket of listening) socket.write(bulks('message', SWITCH, 'm'));
      await until(() => listening.size === 0);
    },
    async close() {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}

const bulk = (text: string) => `$${text.length}\r\n${text}\r\n`;
const bulks = (...texts: readonly string[]) => `*${texts.length}\r\n${texts.map(bulk).join('')}`;

/** The first command that is whole: an array of bulk strings, as clients of Redis send them. */
function firstCommand(text: string): { words: readonly string[]; length: number } | undefined {
  const count = /^\*(\d+)\r\n/u.exec(text);
  if (count === null) return undefined;
  let at = count[0].length;
  const words: string[] = [];
  while (words.length < Number(count[1])) {
    const head = /^\$(\d+)\r\n/u.exec(text.slice(at));
    if (head === null) return undefined;
    const from = at + head[0].length;
    const to = from + Number(head[1]);
    if (text.length < to + 2) return undefined;
    words.push(text.slice(from, to));
    at = to + 2;
  }
  return { words, length: at };
}
