import { validateHeaderValue, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';

export interface UpstreamHead {
  readonly status: number;
  readonly statusMessage: string;
  /** As the upstream sent them. */
  readonly headers: IncomingHttpHeaders;
}

/**
 * The head of an upstream's answer, in a form that can be sent on.
 * @throws when it is no head of HTTP (RFC 9110 §15: a final status is 200 or more; §5.5: no control
 *   characters), which the parser lets through
 */
export function answerHead(answer: IncomingMessage): UpstreamHead {
  const { statusCode: status = 0, statusMessage = '', headers } = answer;
  if (status < 200) throw new Error(`the upstream answered with the status ${status}`);
  validateHeaderValue('reason phrase', statusMessage);
  for (const [name, value] of Object.entries(headers)) {
    for (const one of [value].flat()) validateHeaderValue(name, one ?? '');
  }
  return { status, statusMessage, headers };
}
