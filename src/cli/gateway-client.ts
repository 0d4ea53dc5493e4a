import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { Client } from 'undici';
import { readBasicCredentials } from '../auth/authenticator.ts';
import { connectionTrouble } from '../common/errors.ts';
import { basicAuthorization } from '../common/principal.ts';
import { type Given, UsageError } from './arguments.ts';
import { askHidden, type PasswordPrompt, PasswordRefused, refuseUnusable } from './password.ts';

export interface ClientParts extends PasswordPrompt {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stopped: AbortSignal;
}

/** `word` is in docs/COMMAND-LINE.md, or one of the gateway. */
export class Failure extends Error {
  readonly word: string;
  /** For programs, beside word and message. */
  readonly details: object;

  constructor(word: string, message: string, details: object = {}) {
    super(message);
    this.word = word;
    this.details = details;
  }
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  readonly json: Readonly<Record<string, unknown>> | undefined;
}

/** The output of a command for programs (`value`) and for people (`lines`). */
export interface Told {
  readonly exit: 0 | 3;
  readonly value: object;
  readonly lines: readonly string[];
  readonly warning?: string | undefined;
}

export type GatewayClient = Awaited<ReturnType<typeof connectGateway>>;

/**
 * Reads address, authority and login, and sends nothing yet.
 * @param timeoutMs limits all calls together, from the first on
 * @throws UsageError, PasswordRefused, errors of reading the files
 */
export async function connectGateway(given: Given, timeoutMs: number, parts: ClientParts) {
  const { env, stopped } = parts;
  const base = baseOf(given.url ?? (env['MDX_GATEWAY_URL'] || 'http://127.0.0.1:7080'));
  const url = base.href.replace(/\/+$/, '');
  const user = given.user ?? (env['MDX_GATEWAY_USER'] || undefined);
  const ca = given.ca === undefined ? undefined : readAuthority(given.ca);
  const authorization = user === undefined ? undefined : await loginOf(user, given, parts);
  let late: AbortSignal | undefined;
  const client = new Client(base.origin, {
    connect: { timeout: 0, ...(ca !== undefined && { ca }) },
    headersTimeout: 0,
    bodyTimeout: 0,
    // No page of a gateway is as long.
    maxResponseSize: 16 * 1024 * 1024,
  });
  let isConnected = false;
  client.on('connect', () => (isConnected = true));

  function failureOf(error: NodeJS.ErrnoException): Failure {
    const why = connectionTrouble(error, { ca: '--ca', url: '--url' }) ?? inOneLine(error.message);
    const orTls = base.protocol === 'http:' ? '; for TLS --url begins with https://' : '';
    if (stopped.aborted) return new Failure('stopped', `stopped before ${url} had answered`);
    if (late?.aborted) {
      const word = isConnected ? 'timeout' : 'unreachable';
      return new Failure(word, `${url} did not answer within ${timeoutMs / 1000} s`);
    }
    if (error.code?.startsWith('HPE_')) {
      return new Failure('not-a-gateway', `what answers at ${url} does not speak HTTP${orTls}`);
    }
    return isConnected
      ? new Failure('broken-off', `${url} broke the connection off (${why})${orTls}`)
      : new Failure('unreachable', `${url} cannot be reached: ${why}`);
  }

  return {
    url,
    user,
    /** @throws Failure where no whole answer came */
    async ask(path: string, headers: Record<string, string> = {}, body?: Buffer): Promise<Answer> {
      late ??= AbortSignal.timeout(timeoutMs);
      try {
        const answer = await client.request({
          method: body === undefined ? 'GET' : 'POST',
          path: `${base.pathname.replace(/\/+$/, '')}${path}`,
          headers: { ...headers, ...(authorization !== undefined && { authorization }) },
          body: body ?? null,
          signal: AbortSignal.any([stopped, late]),
        });
        const text = await answer.body.text();
        return { ...answer, status: answer.statusCode, text, json: readObject(text) };
      } catch (error) {
        throw failureOf(error as Error);
      }
    },
    refusal: (answer: Answer): Failure => refusalOf(answer, url, user),
    close: () => void client.destroy(),
  };
}

/** No message may show a URL that holds credentials. */
function baseOf(text: string): URL {
  const url = URL.parse(text);
  let why = 'must be an http:// or https:// URL';
  if (url?.username || url?.password)
    why = 'must hold no login, which others could see: use --user';
  else if (/[?#]/.test(text)) why = 'must have neither query nor fragment';
  else if (url !== null && /^https?:$/.test(url.protocol)) return url;
  throw new UsageError(`--url ${why}`);
}

function readAuthority(file: string): Buffer {
  const pem = readFileSync(file);
  try {
    // Node.js would take any text, and trust none.
    void new X509Certificate(pem);
    return pem;
  } catch {
    throw new Failure('input', `--ca: ${file} holds no certificate (PEM)`);
  }
}

async function loginOf(name: string, given: Given, parts: ClientParts): Promise<string> {
  const { 'password-file': file } = given;
  let password = parts.env['MDX_GATEWAY_PASSWORD'] ?? '';
  if (file !== undefined) password = firstLine(file, parts);
  else if (password === '' && parts.input.isTTY) {
    [password = ''] = await askHidden(parts, `Password of ${name}: `);
  } else if (password === '') {
    const ways = 'give --password-file FILE, or set MDX_GATEWAY_PASSWORD';
    throw new PasswordRefused(`there is no terminal to ask for the password of ${name}; ${ways}`);
  }
  refuseUnusable(password);
  const authorization = basicAuthorization({ name, password });
  const read = readBasicCredentials(authorization);
  if (typeof read === 'object' && read.name === name) return authorization;
  throw new UsageError('--user must be a name without colon and control characters');
}

function firstLine(file: string, { prompts }: PasswordPrompt): string {
  // Not refused: containers mount secrets so, and have no other users.
  if ((statSync(file).mode & 0o004) !== 0) {
    prompts.write(`mdx-gateway: warning: ${file} can be read by other users; chmod 600\n`);
  }
  return readFileSync(file, 'utf8')
    .replace(/^\ufeff/, '')
    .replace(/\r?\n.*/s, '');
}

function readObject(text: string): Answer['json'] {
  try {
    return Object(JSON.parse(text)) as Answer['json'];
  } catch {
    return undefined;
  }
}

/** Removes what could end the line, or steer a terminal. */
const inOneLine = (text: string) => text.replaceAll(/[\p{Cc}\s]+/gu, ' ').trim();

function refusalOf({ status, headers, text, json }: Answer, url: string, user?: string): Failure {
  const { error, message, ...details } = json ?? {};
  if (status >= 300 && status < 400) {
    const to = URL.parse(String(headers['location']), `${url}/`);
    const where = to === null ? '' : ` to ${to.origin}${to.pathname}`;
    return new Failure('redirect', `${url} redirects${where}, which is not followed`);
  }
  if (status < 400 || typeof error !== 'string' || typeof message !== 'string') {
    // Tags of pages and Faults say nothing here.
    const said = inOneLine(text.slice(0, 4096).replaceAll(/<[^>]*>/g, ' ')).slice(0, 160);
    const hint = status === 404 ? '; --url names the gateway itself, without /mdx/xmla' : '';
    const what = `no answer of a gateway: status ${status}${said && `, "${said}"`}`;
    return new Failure('not-a-gateway', `${url} gave ${what}${hint}`);
  }
  const login = user === undefined ? 'no login was given (--user)' : `the login of ${user} failed`;
  return new Failure(error, `${status === 401 ? `${login}: ` : ''}${inOneLine(message)}`, {
    ...details,
    retry_after: Number(headers['retry-after']) || undefined,
  });
}
