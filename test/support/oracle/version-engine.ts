import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { mddatasetAnswer, rowsetAnswer } from '../answers.ts';
import { freePort } from '../free-port.ts';
import { FRAMINGS, framedResponse, framingChoice, framingSeed } from '../framing.ts';
import { gate } from '../stub-engine.ts';
import { onAnyPort, onSamePort, PortTaken } from '../taken-port.ts';
import type { Ledger } from './ledger.ts';
import { LARGE, questionName, RARE } from './questions.ts';
import { stampText } from './version-stamp.ts';

/** Every how manieth answer is slow, and for how long at most (ms): longer than a purge takes in good weather. */
const SLOW = { every: 12, shortest: 1, longest: 300 } as const;
/** What is rarely asked is slow always, so that a warm-up meets purges. */
const SLOWER = { every: 1, shortest: 100, longest: 300 } as const;
/** Bytes of a large answer, more or less: many times what lies in Redis as one value. */
const LARGE_BYTES = 1_000_000;
/** Bytes of one of its cells. */
const NOISE_BYTES = 4_000;
/** Stands in the templates where the stamp is written. */
const MARK = 'THE-STAMP';
const PAGE = '/page';
/** Where the connection ends an answer, nothing tells it from one that broke off. */
const FRAMED = FRAMINGS.filter((framing) => framing !== 'until-close');

export interface VersionEngine {
  /** `{project}` is still to be filled in. */
  readonly url: string;
  /** Of a page that says something else whenever a load of the watched project begins. */
  readonly pageUrl: string;
  /** @returns when the page was looked at since then (ms of the wall clock), growing */
  beginLoad(): readonly number[];
  /** Engine requests so far. */
  readonly requests: () => number;
  /** Whether the request of this number was made by a gateway alone: no trace of a client came with it. */
  isWarm(serial: number): boolean;
  /** Breaks all connections. */
  cut(): void;
  /** Breaks all connections and takes no new ones, until it comes back on the same port. */
  leave(): void;
  comeBack(): Promise<void>;
  /** Looks at nothing that comes, and sends not a byte. */
  pause(): void;
  resume(): void;
  close(): Promise<void>;
}

/**
 * An engine whose every answer shows the versions that its data had when the request arrived, who asked and what.
 * Some answers are slow, before their first byte or in the middle.
 */
export async function startVersionEngine(
  ledger: Ledger,
  random: (below: number) => number,
): Promise<VersionEngine> {
  const templates = answerTemplates(random);
  let requests = 0;
  const warm = new Set<number>();
  let loads = 0;
  let looks: number[] = [];
  let standing = gate();
  standing.open();

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await standing.opened;
    // The oldest moment of which it may be said that this answer shows the data of it.
    const { versions } = ledger;
    const arrived = { serial: (requests += 1), at: ledger.now(), versions: [...versions] };
    if (request.headers['traceparent'] === undefined) warm.add(arrived.serial);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const name = questionName(body);
    const { every, shortest, longest } = name.includes(RARE) ? SLOWER : SLOW;
    const slow = random(every) === 0 ? shortest + random(longest) : 0;
    const inTheMiddle = random(2) === 0;
    const asked = `${pathOf(request.url)}:${name}`;
    const text = stampText({ ...arrived, user: userOf(request), asked });
    const parts = templates[name.startsWith(LARGE) ? 'large' : formOf(body)].flatMap((part, i) =>
      i === 0 ? [part] : [text, part],
    );
    if (slow > 0 && !inTheMiddle) await delay(slow);
    await standing.opened;
    response.writeHead(200, { 'content-type': 'text/xml; charset=utf-8' });
    if (slow > 0 && inTheMiddle) {
      response.write(parts.shift() ?? '');
      await delay(slow);
      await standing.opened;
    }
    response.end(parts.join(''));
  }

  const framings = framedResponse(framingChoice(framingSeed(), FRAMED));
  const server = createServer({ ServerResponse: framings }, (request, response) => {
    if (request.url === PAGE) {
      looks.push(Date.now());
      return void response.end(`load ${loads}`);
    }
    // Whoever asked may have been killed.
    answer(request, response).catch(() => response.destroy());
  });
  server.keepAliveTimeout = 60_000;
  const listen = async (on: number) => {
    server.listen(on, '127.0.0.1');
    await once(server, 'listening').catch((error: unknown) => {
      throw new PortTaken(String(error));
    });
  };
  // Connections of others must not take it while nothing listens there.
  const { port } = await onAnyPort(freePort, listen);
  return {
    url: `http://127.0.0.1:${port}/xmla/{project}`,
    pageUrl: `http://127.0.0.1:${port}${PAGE}`,
    beginLoad() {
      loads += 1;
      return (looks = []);
    },
    requests: () => requests,
    isWarm: (serial) => warm.has(serial),
    cut: () => server.closeAllConnections(),
    leave() {
      server.close();
      server.closeAllConnections();
    },
    comeBack: () => onSamePort(() => listen(port)),
    pause: () => void (standing = gate()),
    resume: () => standing.open(),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

function formOf(body: string): 'rowset' | 'mddataset' {
  return body.includes('<Discover') ? 'rowset' : 'mddataset';
}

/** Answers cut where the stamp stands: at their beginning and near their end. */
function answerTemplates(random: (below: number) => number) {
  const cut = (answer: string) => answer.split(MARK);
  const dataset = (texts: readonly string[]) =>
    mddatasetAnswer({
      members: [MARK],
      cells: texts.length,
      cell: (ordinal) => `<Value xsi:type="xsd:string">${texts[ordinal]}</Value>`,
    });
  // What compresses well would lie in Redis as one value.
  const noise = Array.from({ length: LARGE_BYTES / NOISE_BYTES }, () =>
    Buffer.from(Array.from({ length: (NOISE_BYTES * 3) / 4 }, () => random(256))).toString(
      'base64',
    ),
  );
  return {
    rowset: cut(rowsetAnswer({ names: [MARK, MARK] })),
    mddataset: cut(dataset(['1', MARK])),
    large: cut(dataset([...noise, MARK])),
  };
}

/** The project of the engine's URL as the path of the gateway has it. */
function pathOf(url = ''): string {
  return url.replace(/^\/xmla\/?/u, '/').replace(/^\/$/u, '');
}

function userOf({ headers }: IncomingMessage): string {
  const [, credentials = ''] = (headers.authorization ?? '').split(' ');
  return Buffer.from(credentials, 'base64').toString().split(':', 1)[0] ?? '';
}
