import { LRUCache } from 'lru-cache';
import type { RememberedLogin } from '../auth/authenticator.ts';
import type { KnownKey } from '../query-cache/query.ts';
import type { SessionHandle } from '../sessions/sessions.ts';
import type { Asked } from '../xmla-line/asked.ts';
import { templateOf, type Layout, type Template } from './gaps.ts';

/** What was understood of requests that begin alike: all that the line of a request finds in a head. */
export interface KnownHead {
  /** Tells heads apart in the keys of what is known under them. */
  readonly prefix: string;
  /** Of the credentials in the head; taken anew when they were checked again. */
  login: RememberedLogin;
  /** How long the engine keeps an idle session (ms); undefined: for ever. */
  readonly sessionIdle: number | undefined;
  readonly project: string;
  readonly takesGzip: boolean;
  readonly asksForCaps: boolean;
  /** The shapes of its bodies, the ones that were learnt last first. */
  layouts: readonly KnownLayout[];
}

interface KnownLayout {
  /** Never used again, so that no template meets another layout. */
  readonly id: number;
  readonly layout: Layout;
}

/** A query that was understood, and answered from the cache. */
export interface KnownQuery {
  readonly found: KnownKey;
  /** For events: as of the request that it was learnt from. */
  readonly subject: string;
  /** The name of the roles under which its answers are shared; undefined where they are not shared by roles. */
  readonly roles: string | undefined;
  /** What its session was when it was understood; undefined without a session. */
  readonly session: { readonly profile: string; readonly catalog: string | null } | undefined;
}

/** What was understood of a request that must go past the cache. */
export interface KnownPassing {
  /** As of the request that it was learnt from, and in its session. */
  readonly asked: Asked;
}

/** A body that was recognised. */
export interface KnownBody {
  readonly query: KnownQuery | KnownPassing;
  /** The id of its session. */
  readonly sessionId: string | undefined;
}

export interface KnownQueries {
  recognise(head: KnownHead, body: Buffer): KnownBody | undefined;
  learn(head: KnownHead, layout: Layout, template: Template, query: KnownBody['query']): void;
  /** Puts another query in the place of the one that a body is recognised as; false when it is not. */
  replace(head: KnownHead, body: Buffer, query: KnownBody['query']): boolean;
  /** The session of that id, if something was learnt in it under this head. */
  session(head: KnownHead, id: string): SessionHandle | undefined;
  learnSession(head: KnownHead, id: string, handle: SessionHandle): void;
}

/** What all queries may take together, and each takes beside its text (bytes). */
const MAX_BYTES = 16 * 1024 * 1024;
const OVERHEAD = 600;
/** What was understood of a body takes so many times its text, and more than what is known of a query. */
const OF_ASKED = { times: 4, overhead: 4_000 } as const;
const MAX_SESSIONS = 10_000;
/** Shapes of one head; a client program has one or two. */
const MAX_LAYOUTS = 8;

/** The least recently used are forgotten, and understood anew when they come again. */
export function createKnownQueries(): KnownQueries {
  const queries = new LRUCache<string, KnownBody['query']>({
    maxSize: MAX_BYTES,
    sizeCalculation: (query, key) =>
      'asked' in query ? key.length * OF_ASKED.times + OF_ASKED.overhead : key.length + OVERHEAD,
  });
  const sessions = new LRUCache<string, SessionHandle>({ max: MAX_SESSIONS });

  let made = 0;

  function find({ layouts, prefix }: KnownHead, body: Buffer) {
    for (const { id, layout } of layouts) {
      const template = templateOf(body, layout);
      if (template === undefined) continue;
      const key = keyOf(prefix, id, template);
      const query = queries.get(key);
      if (query !== undefined) return { key, query, sessionId: template.session };
    }
    return undefined;
  }

  /** The least recently made layout gives way: sessions whose ids have other lengths have layouts of their own. */
  function idOf(head: KnownHead, layout: Layout): number {
    const known = head.layouts.find((one) => isSame(one.layout, layout));
    if (known !== undefined) return known.id;
    made += 1;
    head.layouts = [{ id: made, layout }, ...head.layouts.slice(0, MAX_LAYOUTS - 1)];
    return made;
  }

  return {
    recognise: find,
    learn(head, layout, template, query) {
      queries.set(keyOf(head.prefix, idOf(head, layout), template), query);
    },
    replace(head, body, query) {
      const found = find(head, body);
      if (found !== undefined) queries.set(found.key, query);
      return found !== undefined;
    },
    session: ({ prefix }, id) => sessions.get(prefix + id),
    learnSession: ({ prefix }, id, handle) => void sessions.set(prefix + id, handle),
  };
}

/** The parts cannot run into each other: the prefix ends in a letter that no number holds. */
function keyOf(prefix: string, layout: number, { text }: Template): string {
  return `${prefix}${layout}:${text}`;
}

function isSame(one: Layout, other: Layout): boolean {
  return one.length === other.length && JSON.stringify(one) === JSON.stringify(other);
}
