import type { BypassReason } from '../../reasons.ts';
import { mdxTokens } from '../mdx/mdx-tokens.ts';
import type { MdxTokens } from '../mdx/mdx-tokens.ts';
import { classifyStatement, MAX_STATEMENT } from '../mdx/statement-policy.ts';
import type { XmlaRequest } from './xmla-request.ts';

/** What is asked of a statement more than once, so that it is read only once. */
export interface StatementReading {
  /** Undefined where there is no statement to be read, and for one longer than MAX_STATEMENT. */
  readonly tokens: MdxTokens | undefined;
  /** Why the answer to what is executed may not be cached; undefined when it may, and for a Discover. */
  readonly bypass: BypassReason | undefined;
}

const OF_DISCOVER: StatementReading = { tokens: undefined, bypass: undefined };

/** Reads the statement of a request. */
export function readStatement(request: XmlaRequest): StatementReading {
  if (request.method === 'Discover') return OF_DISCOVER;
  const { commands, statement } = request;
  const tokens = statement.length > MAX_STATEMENT ? undefined : mdxTokens(statement);
  const isOne = commands.length === 1 && commands[0] === 'Statement';
  return { tokens, bypass: isOne ? classifyStatement(statement, tokens) : 'not-a-query' };
}
