import { LRUCache } from 'lru-cache';
import type { RememberedLogin } from '../auth/authenticator.ts';
import type { KnownKey } from '../query-cache/query.ts';
import type { SessionHandle } from '../sessions/sessions.ts';
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
  /** The shapes of its bodies; the place in the list is the id of each. */
  readonly layouts: Layout[];
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

/** A body that was recognised. */
export interface KnownBody {
  readonly query: KnownQuery;
  /** The id of its session. */
  readonly sessionId: string | undefined;
}

export interface KnownQueries {
  recognise(head: KnownHead, body: Buffer): KnownBody | undefined;
  learn(head: KnownHead, layout: Layout, template: Template, query: KnownQuery): void;
  /** The session of that id, if something was learnt in it under this head. */
  session(head: KnownHead, id: string): SessionHandle | undefined;
  learnSession(head: KnownHead, id: string, handle: SessionHandle): void;
}

/** What all queries may take together, and each takes beside its text (bytes). */
const MAX_BYTES = 16 * 1024 * 1024;
const OVERHEAD = 600;
const MAX_SESSIONS = 10_000;
/** Shapes of one head; a client program has one or two. */
const MAX_LAYOUTS = 8;

/** The least recently used are forgotten, and understood anew when they come again. */
export function createKnownQueries(): KnownQueries {
  const queries = new LRUCache<string, KnownQuery>({
    maxSize: MAX_BYTES,
    sizeCalculation: (_query, key) => key.length + OVERHEAD,
  });
  const sessions = new LRUCache<string, SessionHandle>({ max: MAX_SESSIONS });

  return {
    recognise(head, body) {
      const { layouts, prefix } = head;
      for (let id = 0; id < layouts.length; id += 1) {
        const template = templateOf(body, layouts[id] ?? []);
        if (template === undefined) continue;
        const query = queries.get(keyOf(prefix, id, template));
        if (query !== undefined) return { query, sessionId: template.session };
      }
      return undefined;
    },
    learn({ layouts, prefix }, layout, template, query) {
      const same = layouts.findIndex((one) => isSame(one, layout));
      const id = same === -1 ? layouts.length : same;
      if (id >= MAX_LAYOUTS) return;
      layouts[id] = layout;
      queries.set(keyOf(prefix, id, template), query);
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
