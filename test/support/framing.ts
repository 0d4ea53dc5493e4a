import { type IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { randomFrom } from './mutate.ts';

/**
 * How a whole answer goes out (RFC 9112 §6). Engines differ in it, and one engine from answer to answer, by what its buffers
 * hold. A gateway must pass each on to the byte.
 */
export const FRAMINGS = [
  /** Content-Length, in one write and in several. */
  'length',
  'length-in-pieces',
  /** Chunks, all in one write, and each in a turn of its own. */
  'chunks-at-once',
  'chunks',
  /** Compressed, also where no coding was asked for, as some engines do. */
  'gzip',
  'gzip-chunks',
  /** Neither a length nor chunks: the connection ends it. */
  'until-close',
] as const;
export type Framing = (typeof FRAMINGS)[number];

/** Bytes of a chunk: from what a careful server flushes to the buffer of Jetty. */
const CHUNK = { least: 200, most: 32 * 1024 };
/** Of a long answer the chunks are longer, so that no test waits for thousands of turns. */
const MOST_CHUNKS = 200;

/** Where each piece has a turn of its own, behind so many the rest comes at once: a short answer must not take long. */
const MOST_TURNS = 4;

/** FRAMING_SEED repeats a run; it is printed before the first test. */
export const framingSeed = (): number => Number(process.env['FRAMING_SEED'] ?? 1);

/**
 * Chooses framings by the seed.
 * @param only those that may be chosen; a test that needs a certain form says why
 */
export function framingChoice(seed: number, only: readonly Framing[] = FRAMINGS) {
  const below = randomFrom(seed);
  return {
    below,
    next: (): Framing => only[below(only.length)] as Framing,
  };
}
export type FramingChoice = ReturnType<typeof framingChoice>;

/** Pieces of random length. The first cut is within a character of several bytes, if there is one. */
function* piecesOf(body: Buffer, below: (limit: number) => number): Generator<Buffer> {
  const within = body.findIndex((byte) => byte >= 0x80 && byte < 0xc0);
  let at = 0;
  if (within > 0) yield body.subarray(0, (at = within));
  const least = Math.max(CHUNK.least, Math.ceil(body.length / MOST_CHUNKS));
  const most = Math.max(CHUNK.most, least);
  // Small chunks, middling and large ones alike.
  const usual = Math.min(most, least * 2 ** below(8));
  while (at < body.length) {
    const length = least + below(usual);
    yield body.subarray(at, at + length);
    at += length;
  }
}

/** Answers to these have no body of their own. */
const BODILESS: ReadonlySet<number> = new Set([204, 304]);

/**
 * A response whose whole body, given to `end`, goes out in a framing that is chosen for it. What is written in pieces, or
 * under a head that says how it is framed, goes out as it is: there the test frames it by itself.
 */
export function framedResponse(choice: FramingChoice): typeof ServerResponse<IncomingMessage> {
  return class FramedResponse extends ServerResponse<IncomingMessage> {
    /** What `writeHead` was given: the head is made when the framing is known. */
    #head: Parameters<ServerResponse['writeHead']> | undefined;

    override writeHead(...head: unknown[]): this {
      this.#head = head as Parameters<ServerResponse['writeHead']>;
      return this;
    }

    override write(...given: unknown[]): boolean {
      this.#sendHead();
      return super.write(...(given as Parameters<ServerResponse['write']>));
    }

    override flushHeaders(): void {
      this.#sendHead();
      super.flushHeaders();
    }

    override end(...given: unknown[]): this {
      const [body] = given;
      const isWhole = typeof body === 'string' || Buffer.isBuffer(body);
      if (isWhole && given.length === 1 && !this.headersSent) {
        const bytes = Buffer.from(body as string);
        const headers = this.#ownHeaders();
        if (headers !== undefined && this.#mayFrame(headers)) {
          void this.#frame(headers, bytes);
          return this;
        }
      }
      this.#sendHead();
      return super.end(...(given as []));
    }

    #sendHead(): void {
      if (!this.headersSent) super.writeHead(...(this.#head ?? [this.statusCode]));
      this.#head = undefined;
    }

    /** In lower case; undefined where they were given as a list, which is sent as it is. */
    #ownHeaders(): OutgoingHttpHeaders | undefined {
      const given = this.#head?.at(-1) ?? {};
      if (Array.isArray(given)) return undefined;
      const headers = typeof given === 'object' ? (given as OutgoingHttpHeaders) : {};
      const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
      return { ...this.getHeaders(), ...Object.fromEntries(lower) };
    }

    #mayFrame(headers: OutgoingHttpHeaders): boolean {
      const status = Number(this.#head?.[0] ?? this.statusCode);
      return (
        this.req.method !== 'HEAD' &&
        this.req.httpVersion === '1.1' &&
        !BODILESS.has(status) &&
        headers['content-length'] === undefined &&
        headers['transfer-encoding'] === undefined &&
        headers['content-encoding'] === undefined &&
        headers['connection'] === undefined
      );
    }

    async #frame(headers: OutgoingHttpHeaders, whole: Buffer) {
      let framing = choice.next();
      const accepted = String(this.req.headers['accept-encoding'] ?? '');
      const takesGzip = /\bgzip\b|^identity$/.test(accepted);
      if (framing.startsWith('gzip') && !takesGzip) framing = 'chunks';
      const isCoded = framing.startsWith('gzip');
      const body = isCoded ? gzipSync(whole, { level: 1 }) : whole;
      if (isCoded) headers['content-encoding'] = 'gzip';
      const hasLength = framing.startsWith('length') || framing === 'gzip';
      if (hasLength) headers['content-length'] = body.length;
      if (framing === 'until-close') {
        this.shouldKeepAlive = false;
        this.useChunkedEncodingByDefault = false;
      }
      const [status = this.statusCode, reason] = this.#head ?? [];
      this.#head = undefined;
      for (const name of this.getHeaderNames()) this.removeHeader(name);
      if (typeof reason === 'string') super.writeHead(status, reason, headers);
      else super.writeHead(status, headers);
      if (framing === 'length' || framing === 'gzip') return super.end(body);
      const isAtOnce = framing === 'chunks-at-once';
      // Not the response: Node.js would make one chunk of all that is written meanwhile.
      if (isAtOnce) this.socket?.cork();
      let turns = isAtOnce ? 0 : MOST_TURNS;
      for (const piece of piecesOf(body, choice.below)) {
        if (this.destroyed) return undefined;
        super.write(piece);
        if ((turns -= 1) >= 0) await new Promise(setImmediate);
      }
      super.end();
      if (isAtOnce) this.socket?.uncork();
      return this;
    }
  };
}
