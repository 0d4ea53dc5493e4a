/*
 * An attacker in a process of its own. One argument: an Attack as JSON. Attacks at once, and tells an AttackReport
 * at `end`, as soon as it has sent what it was to send at least.
 */
import { Agent, type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { ATTACKS, type HostileRequest } from './attacks.ts';
import { asking } from './remembered.ts';

export interface Attack {
  readonly kind: keyof typeof ATTACKS | keyof typeof PIECES;
  readonly port: number;
  /** The login; the password is the name in lower case. */
  readonly name: string;
  /** From which it connects, in turn. */
  readonly addresses: readonly string[];
  /** At one time. */
  readonly connections: number;
  /** Requests that it sends at least, or connections that it opens. */
  readonly least: number;
  /** Which connections take their answers: each; two of three, and the third one nothing more than a head; none, which go with the head. */
  readonly reads?: 'all' | 'most' | 'none';
}

export interface AttackReport {
  readonly sent: number;
  /** How many had each end: status and Cache-Status, or a failure. */
  readonly ends: Readonly<Record<string, number>>;
}

const attack = JSON.parse(process.argv[2] ?? '') as Attack;
const { port, addresses, connections } = attack;
const authorization = `Basic ${Buffer.from(`${attack.name}:${attack.name.toLowerCase()}`).toString('base64')}`;
let [sent, over] = [0, false];
const ends: Record<string, number> = {};
const isOver = () => over && sent >= attack.least;

function note(end: string): void {
  ends[end] = (ends[end] ?? 0) + 1;
}

/** `status word`, without what differs from answer to answer. */
const endOf = (status: number | undefined, cacheStatus: unknown) =>
  `${status} ${String(cacheStatus ?? '').replace(/mdx-gateway;? ?|; ttl=-?\d+/g, '')}`.trim();

type Reads = 'all' | 'head' | 'nothing';
/** Answers of which nothing more is taken. */
const left = new Set<IncomingMessage>();

function take(answer: IncomingMessage, reads: Reads): void {
  if (reads === 'all') answer.resume();
  else if (reads === 'head' || over) answer.destroy();
  else {
    left.add(answer);
    answer.on('close', () => left.delete(answer));
  }
}

function send(
  kind: keyof typeof ATTACKS,
  agent: Agent,
  localAddress: string,
  reads: Reads,
): Promise<void> {
  const { path, body, gzip, headers }: HostileRequest = ATTACKS[kind](sent);
  const bytes = gzip ? gzipSync(body, { level: 1 }) : body;
  sent += 1;
  return new Promise((resolve) => {
    const asked = request(
      {
        host: '127.0.0.1',
        port,
        method: 'POST',
        path,
        agent,
        localAddress,
        headers: {
          authorization,
          'content-type': 'text/xml',
          'content-length': bytes.length,
          ...(gzip && { 'content-encoding': 'gzip' }),
          ...headers,
        },
      },
      (answer) => {
        note(endOf(answer.statusCode, answer.headers['cache-status']));
        answer.on('close', resolve).on('error', () => {});
        take(answer, reads);
      },
    );
    asked.on('error', (error: NodeJS.ErrnoException) => {
      note(error.code ?? error.message);
      resolve();
    });
    asked.end(bytes);
  });
}

/** Sends requests on one connection, each after the answer to the one before. */
async function sendOnAndOn(
  kind: keyof typeof ATTACKS,
  localAddress: string,
  reads: Reads,
): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  while (!isOver()) await send(kind, agent, localAddress, reads);
  agent.destroy();
}

/** Of so many bytes, and without its end. */
function headOf(length: number): string {
  const begun = 'POST /mdx/xmla HTTP/1.1\r\nHost: gateway\r\n';
  const [name, value] = ['X-Filling: ', 1_000];
  const lines = Math.floor((length - begun.length) / (name.length + value + 2));
  return begun + `${name}${'x'.repeat(value)}\r\n`.repeat(lines);
}

/** Requests in one piece of so many bytes. */
function piped(request: string): Buffer {
  const all = 3_800_000;
  return Buffer.from(request.repeat(Math.floor(all / request.length)));
}
const REMEMBERED = asking('Warm', { catalog: attack.name });
const withLogin =
  `POST /mdx/xmla HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nContent-Type: text/xml\r\n` +
  `Content-Length: ${REMEMBERED.length}\r\n\r\n${REMEMBERED.toString()}`;

/** What each connection sends at once, one of these after the other. */
const PIECES = {
  /** Almost as long as the largest head that Node.js can be told to take, and as `limits.head`. */
  'unfinished-heads': [headOf(60_000), headOf(16_000)],
  pipelined: [
    piped('POST /mdx/xmla HTTP/1.1\r\n\r\n'),
    piped('POST /mdx/xmla HTTP/1.1\r\nHost:x\r\n\r\n'),
    piped('GET /api/roles HTTP/1.1\r\nHost:x\r\n\r\n'),
    piped('GET /none HTTP/1.1\r\nHost:x\r\nExpect:x\r\n\r\n'),
  ],
  'pipelined-with-login': [
    piped(withLogin),
    // As many as may be unanswered.
    withLogin.repeat(32),
  ],
} as const;
/** Connections that are opened in a turn of this long (ms). */
const OPENED_AT_ONCE = 250;
const TURN = 50;

/** A connection goes so long after its first answer (ms). */
const STAYS = 1_000;

/** Opens connections that send a piece and stop, and opens others for those that are closed or answered. */
async function sendPieces(pieces: readonly (string | Buffer)[]): Promise<void> {
  const open = new Set<Socket>();
  while (!isOver()) {
    for (let opened = 0; opened < OPENED_AT_ONCE && open.size < connections; opened += 1) {
      const localAddress = addresses[sent % addresses.length] ?? '';
      const socket = connect({ port, host: '127.0.0.1', localAddress });
      const piece = pieces[Math.floor(sent / addresses.length) % pieces.length] ?? '';
      sent += 1;
      open.add(socket);
      socket.once('connect', () => socket.write(piece));
      socket.once('data', (answer) => {
        note(String(answer).slice(0, 12));
        setTimeout(() => socket.destroy(), STAYS);
      });
      socket.once('error', (error: NodeJS.ErrnoException) => note(error.code ?? error.message));
      socket.once('close', () => open.delete(socket));
    }
    await sleep(TURN);
  }
  note(`open at the end: ${open.size}`);
  for (const socket of open) socket.resetAndDestroy();
}

process.on('disconnect', () => process.exit());
process.on('message', () => {
  over = true;
  for (const answer of left) answer.destroy();
});
/** How the connection of that number takes its answers. */
const readsOf = (number: number): Reads => {
  if (attack.reads === 'none') return 'head';
  return attack.reads === 'most' && number % 3 === 2 ? 'nothing' : 'all';
};
const { kind } = attack;
await (kind in PIECES
  ? sendPieces(PIECES[kind as keyof typeof PIECES])
  : Promise.all(
      Array.from({ length: connections }, (_, number) =>
        sendOnAndOn(
          kind as keyof typeof ATTACKS,
          addresses[number % addresses.length] ?? '',
          readsOf(number),
        ),
      ),
    ));
const report: AttackReport = { sent, ends };
process.send?.(report, () => process.exit());
