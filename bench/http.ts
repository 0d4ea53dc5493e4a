import { once } from 'node:events';
import { request, type Agent, type IncomingHttpHeaders } from 'node:http';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** As it came: no coding is removed. */
  readonly body: Buffer;
}

export interface Message {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | string;
  readonly agent?: Agent;
}

/** One request to 127.0.0.1, on a connection of its own unless an agent is given. */
export async function ask(port: number, message: Message = {}): Promise<Answer> {
  const { method = 'POST', path = '/', headers = {}, body = '', agent = false } = message;
  const sent = request({ host: '127.0.0.1', port, method, path, headers: { ...headers }, agent });
  sent.end(body);
  const [answer] = await once(sent, 'response');
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return { status: answer.statusCode, headers: answer.headers, body: Buffer.concat(chunks) };
}
