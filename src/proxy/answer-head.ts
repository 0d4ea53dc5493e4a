import { validateHeaderValue, type IncomingHttpHeaders } from 'node:http';
import type { UpstreamAnswer } from './upstream-answer.ts';

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
export function answerHead(
  answer: Pick<UpstreamAnswer, 'statusCode' | 'statusMessage' | 'headers'>,
): UpstreamHead {
  const { statusCode: status = 0, statusMessage = '', headers } = answer;
  if (status < 200) throw new Error(`the upstream answered with the status ${status}`);
  check('reason phrase', statusMessage);
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value === 'string') check(name, value);
    else for (const one of value ?? []) check(name, one);
  }
  return { status, statusMessage, headers };
}

const PLAIN = /^[\t\x20-\x7e]*$/;

/** Nearly every value is plain, which is found much faster. */
function check(name: string, value: string): void {
  if (!PLAIN.test(value)) validateHeaderValue(name, value);
}
