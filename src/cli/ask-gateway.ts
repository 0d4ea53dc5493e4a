import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { meaningOf } from '../common/reasons.ts';
import { explainInWords, type Explanation } from '../http/explain-words.ts';
import { isXmlaHeader } from '../http/request-head.ts';
import { readXmlaPath } from '../http/xmla-path.ts';
import { type Given, UsageError } from './arguments.ts';
import {
  type ClientParts,
  connectGateway,
  Failure,
  type GatewayClient,
  type Told,
} from './gateway-client.ts';
import { type PasswordPrompt, readInput } from './password.ts';
import { status } from './status.ts';

/** A purge takes a login, clearing by the engines, 30 s each, and two runs of tries and waits. */
const TIMEOUTS_MS = { purge: 120_000, status: 30_000, explain: 30_000 };

/** @returns the exit status: 0 done, 1 failed, 3 not ready or pending. @throws UsageError */
export async function askGateway(
  kind: keyof typeof TIMEOUTS_MS,
  command: Given,
  parts: ClientParts & { readonly output: { write(text: string): unknown } },
): Promise<number> {
  const { json } = command;
  const say = (line: string) => void parts.prompts.write(`mdx-gateway ${kind}: ${line}\n`);
  const tell = (value: object) => parts.output.write(`${JSON.stringify(value, null, 2)}\n`);
  let client: GatewayClient | undefined;
  try {
    if (kind !== 'status' && !(command.user ?? parts.env['MDX_GATEWAY_USER'])) {
      throw new UsageError(`${kind} needs --user NAME, or MDX_GATEWAY_USER`);
    }
    // Wrong words and files are reported before a password is asked for.
    const run = kind === 'status' ? status : { purge, explain }[kind](command, parts);
    client = await connectGateway(command, TIMEOUTS_MS[kind], parts);
    const { exit, value, lines, warning } = await run(client);
    if (json) tell(value);
    else parts.output.write(lines.map((line) => `${line.replaceAll(/\p{Cc}/gu, ' ')}\n`).join(''));
    if (warning !== undefined) say(`warning: ${warning}`);
    return exit;
  } catch (error) {
    if (error instanceof UsageError) throw error;
    // Errors of files and passwords have no word.
    const { word = 'input', message, details } = error as Error & Partial<Failure>;
    if (json) tell({ error: word, message, ...details });
    say(message);
    return word === 'purge-failed' ? 3 : 1;
  } finally {
    client?.close();
  }
}

/** Failures after which the purge may have been done, or not. */
const DOUBTFUL = /^(?:broken-off|timeout|stopped|not-a-gateway|internal)$/;

/** @throws UsageError for a name no path can carry: a server on the way might read everything */
function purge({ name: project }: Given): (client: GatewayClient) => Promise<Told> {
  const ofProject = project === undefined ? '' : `/${encodeURIComponent(project)}`;
  const path = `/mdx/xmla${ofProject}/clearCache`;
  const read = readXmlaPath(path);
  if (read?.kind === 'bad-project') throw new UsageError(`purge: ${read.message}`);
  const scope = project === undefined ? 'everything' : { project };
  return async (client) => {
    try {
      const answer = await client.ask(path, { accept: 'application/json' });
      const { status, json } = answer;
      const isReceipt = status === 200 && json?.['status'] === 'cleared';
      if (!isReceipt || !isDeepStrictEqual(json['scope'], scope)) throw client.refusal(answer);
      // The words of the interface document §4.3.
      const lines = [`${project === undefined ? '' : `${project} `}Cache has been cleared.`];
      const misspelt = `no gateway knows the project ${JSON.stringify(project)}; is its name right?`;
      const warning = json['known'] === false ? misspelt : undefined;
      return { exit: 0, value: json, lines, warning };
    } catch (error) {
      const { word, message, details } = error as Failure;
      if (word === 'purge-failed') throw new Failure(word, `pending: ${message}`, details);
      if (!DOUBTFUL.test(word)) throw error;
      const doubt = 'It is not known whether the purge holds: call again.';
      throw new Failure(word, `${message.replace(/\.$/, '')}. ${doubt}`, details);
    }
  };
}

/** @throws UsageError, errors of reading the file */
export function explain(
  { name: file = '-', project, as: user, header = [] }: Given,
  parts: Required<PasswordPrompt>,
): (client: GatewayClient) => Promise<Told> {
  const headers = { 'content-type': 'text/xml', ...Object.fromEntries(header.map(readHeader)) };
  const query = new URLSearchParams({ ...(project && { project }), ...(user && { user }) });
  const read = file === '-' ? undefined : readFileSync(file);
  return async (client) => {
    const body = read ?? (await readInput(parts));
    const answer = await client.ask(`/admin/explain?${query}`, headers, body);
    if (answer.status !== 200 || !answer.json?.['classification']) throw client.refusal(answer);
    const lines = explainInWords(answer.json as unknown as Explanation, meaningOf);
    return { exit: 0, value: answer.json, lines };
  };
}

function readHeader(line: string): [name: string, value: string] {
  const [, name = '', value = ''] = /^([\w-]+): *([ -~\xa0-\xff]+)$/.exec(line) ?? [];
  if (name !== '' && isXmlaHeader(name.toLowerCase())) return [name.toLowerCase(), value];
  const names =
    'Content-Type, SOAPAction, Accept, User-Agent, X-AS-SessionID, X-AS-GetSessionToken, or what engine.headers may name';
  const letters = 'the value in letters of ISO-8859-1, without control characters';
  throw new UsageError(`explain: --header must be "Name: value" of one of ${names}; ${letters}`);
}
