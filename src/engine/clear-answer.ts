import { foldObjectName } from '../fold-case.ts';

/** How much of an unexpected text is shown (characters). */
const SHOWN = 120;
const DONE = 'Cache has been cleared.';

/**
 * Reads the answer of MDX for Kylin to its clearCache. Only the words of the interface document §4.3 say that it was
 * done, alone or after the name of the project, in any letter case and with any white space; a wrong password is
 * answered with status 200 and a SOAP Fault.
 * @param answer.body without content coding
 * @param project whose cache was to be cleared, decoded; undefined for everything
 * @returns undefined when the cache is cleared, else one sentence that says what came instead. It never says
 *   "cleared", so that no script takes it for the words it looks for
 */
export function readClearAnswer(
  answer: {
    readonly status: number;
    readonly coding: string | undefined;
    readonly body: Buffer;
  },
  project: string | undefined,
): string | undefined {
  const { status } = answer;
  if (status === 401 || status === 403 || status === 407) {
    return `It refused the login (status ${status}).`;
  }
  if (status >= 300 && status < 400) {
    return `It answered with status ${status}, a redirect, which is not followed.`;
  }
  if (status !== 200) return `It answered with status ${status}.`;
  if ((answer.coding ?? 'identity').trim().toLowerCase() !== 'identity') {
    return 'It answered in a content coding that is not known.';
  }
  const text = answer.body.toString('utf8').trim();
  if (/<(?:[\w.-]+:)?Fault[\s>]/.test(text)) {
    return 'It answered with a SOAP Fault, as to a wrong password.';
  }
  if (/^<(?:[!?]|html\b|(?:[\w.-]+:)?Envelope\b)/i.test(text)) {
    return 'It answered with a document instead of the words of clearCache.';
  }
  const done = project === undefined ? [DONE] : [DONE, `${project} ${DONE}`];
  return done.map(folded).includes(folded(text)) ? undefined : otherText(text);
}

function folded(text: string): string {
  return foldObjectName(text).replaceAll(/\s+/g, ' ');
}

function otherText(text: string): string {
  if (text === '') return 'It answered with an empty text.';
  const shown = text.slice(0, SHOWN).replace(/[^\p{L}\p{N}\p{P}\p{S} ]+/gu, ' ');
  if (/cleared/i.test(shown)) return 'It answered with other words than those of clearCache.';
  return `It answered with another text: ${JSON.stringify(shown)}.`;
}
