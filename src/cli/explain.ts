/** The command explain. */
import { readFileSync } from 'node:fs';
import { explainInWords, type Explanation } from '../console/explain-words.ts';
import { meaningOf } from '../common/reasons.ts';
import { isXmlaHeader } from '../http/request-head.ts';
import { type Given, UsageError } from './arguments.ts';
import type { GatewayClient, Told } from './gateway-client.ts';
import { type PasswordPrompt, readInput } from './password.ts';

/** @returns asks, and throws Failure. @throws UsageError, what reading the file throws */
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
  if (isXmlaHeader(name.toLowerCase())) return [name.toLowerCase(), value];
  const names =
    'Content-Type, SOAPAction, Accept, User-Agent, X-AS-SessionID, X-AS-GetSessionToken';
  const letters = 'the value in letters of ISO-8859-1, without control characters';
  throw new UsageError(`explain: --header must be "Name: value" of one of ${names}; ${letters}`);
}
