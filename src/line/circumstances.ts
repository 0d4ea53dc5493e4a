import type { IncomingHttpHeaders } from 'node:http';
import { SESSION_HEADER } from '../cache/answer-sessions.ts';
import type { EngineTraits } from '../common/engine-kinds.ts';
import { nameAsRead } from '../common/header-names.ts';
import type { EngineConfig } from '../engine/config.ts';
import type { Engine } from '../engine/http-engine.ts';
import type { EngineAddressee } from '../engine/replicas.ts';
import { acceptedType, userAgentClass } from '../http/request-head.ts';
import { namedHeaders } from '../proxy/forwarded.ts';
import type { StatementRules } from '../xmla/mdx/statement-policy.ts';

/** SSAS clients ask by it for a token of their session. */
const TOKEN_HEADER = 'x-as-getsessiontoken';
const OWN_NAME = 'mdx-gateway';

/** Where a request goes, as far as it counts for what is understood. */
export interface AskedOf {
  readonly engine: Pick<Engine, 'id'>;
  readonly settings: Pick<EngineConfig, 'headers' | 'delegation'>;
  readonly traits: EngineTraits;
  readonly volatile: NonNullable<StatementRules['volatile']>;
  readonly addressee: Pick<EngineAddressee, 'project' | 'query'>;
}

/**
 * All beside the body that may count for what is understood of a request. Plain data: equal texts
 * of JSON mean that equal bodies are understood alike.
 */
export type Circumstances = Readonly<ReturnType<typeof circumstancesOf>>;

export function circumstancesOf(
  headers: IncomingHttpHeaders,
  { engine, settings, traits, volatile, addressee: { project, query } }: AskedOf,
) {
  return {
    engine: engine.id,
    traits,
    volatile,
    refusesDelegation: settings.delegation === 'refuse',
    project,
    query,
    contentType: headers['content-type'],
    soapAction: headers.soapaction,
    accept: acceptedType(headers.accept),
    // Where answers do not depend on it, all programs share them.
    userAgent: traits.readsUserAgent ? userAgentClass(headers['user-agent']) : OWN_NAME,
    namedHeaders: namedHeaders(headers, settings.headers),
    sessionIds: sessionsInHeaders(headers),
    sessionToken: valuesOf(headers, TOKEN_HEADER).length > 0,
  };
}

/**
 * All sessions that the headers may name: each spelling is forwarded that a server takes for the
 * name, and several values as one text with commas (RFC 9110 §5.3), which an engine may split or
 * not.
 */
function sessionsInHeaders(headers: IncomingHttpHeaders): readonly string[] {
  const texts = valuesOf(headers, SESSION_HEADER);
  if (texts.length === 0) return texts;
  const all = [...texts, ...texts.flatMap((text) => text.split(','))].map((id) => id.trim());
  return [...new Set(all.filter((id) => id !== ''))];
}

function valuesOf(headers: IncomingHttpHeaders, wanted: string): readonly string[] {
  const found: string[] = [];
  for (const name in headers) {
    // Read otherwise a name keeps its length.
    if (name.length !== wanted.length || nameAsRead(name) !== wanted) continue;
    found.push(...[headers[name] ?? []].flat());
  }
  return found;
}
