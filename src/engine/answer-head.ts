import { validateHeaderValue, type IncomingMessage } from 'node:http';
import type { AnswerHead } from '../query-cache/query.ts';

/**
 * The head of an engine's answer, in a form that can be sent on.
 * @throws when it is no head of HTTP (RFC 9110 §15: a final status is 200 or more; §5.5: no control
 *   characters), which the parser lets through
 */
export function answerHead(answer: IncomingMessage): AnswerHead {
  const { statusCode: status = 0, statusMessage = '', headers } = answer;
  if (status < 200) throw new Error(`the engine answered with the status ${status}`);
  validateHeaderValue('reason phrase', statusMessage);
  for (const [name, value] of Object.entries(headers)) {
    for (const one of [value].flat()) validateHeaderValue(name, one ?? '');
  }
  return { status, statusMessage, headers };
}
