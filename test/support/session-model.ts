import { randomUUID } from 'node:crypto';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { faultAnswer } from './answers.ts';
import { propertyOf, type EngineRequest } from './engine-request.ts';
import { emptyAnswer, stampedAnswer, type Stamp } from './stamps.ts';

/** The code of eMondrian for a session that it does not know. */
export const UNKNOWN_SESSION = '3238789130';

/** What engines differ in, as the protocol facts have it. */
interface Rules {
  readonly unknown: 'accepted' | 'fault';
  /** In which later answers of a session its element stands. */
  readonly echo: 'always' | 'every-other' | 'never';
  readonly owner: boolean;
  /** Whether the first catalog of a session, and what it was begun with, go on to count. */
  readonly keepsBeginning: boolean;
  /** Whether WS-Security goes on to count in its session. */
  readonly bindsSecurity: boolean;
  /** Whether session blocks without mustUnderstand="1" are as good as not there. */
  readonly needsUnderstand: boolean;
  readonly readsProgram: boolean;
  /** Milliseconds. */
  readonly idle: number;
}

const GENERIC: Rules = {
  unknown: 'fault',
  echo: 'always',
  owner: false,
  keepsBeginning: true,
  bindsSecurity: false,
  needsUnderstand: false,
  readsProgram: true,
  idle: Infinity,
};
const MONDRIAN: Rules = {
  ...GENERIC,
  unknown: 'accepted',
  keepsBeginning: false,
  bindsSecurity: true,
  needsUnderstand: true,
  readsProgram: false,
};
const RULES: Readonly<Record<EngineKind, Rules>> = {
  generic: GENERIC,
  mondrian: MONDRIAN,
  emondrian: { ...GENERIC, readsProgram: false, idle: 3_600_000 },
  kylin: { ...MONDRIAN, echo: 'never', needsUnderstand: false, readsProgram: true },
  ssas: { ...GENERIC, echo: 'every-other', owner: true, readsProgram: false },
};

/** New for every request or process of a client, and without effect on the answer (protocol: "Properties"). */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set(
  (
    'DbpropMsmdActivityID DbpropMsmdRequestID DbpropMsmdCurrentActivityID ClientProcessID SspropInitWsid ' +
    'SspropInitPacketsize RequestPriority DbpropMsmdRequestMemoryLimit MemoryLockingMode ApplicationContext ' +
    'Timeout CommitTimeout ForceCommitTimeout'
  ).split(' '),
);

interface State {
  readonly id: string;
  readonly owner: string;
  /** Properties and versions of its beginning that go on to count. */
  readonly kept: Stamp['kept'];
  created: string[];
  catalog: string;
  security: string;
  lastAsked: number;
}

/** What an engine has to say to a request, before it is written. */
export interface Made {
  readonly method: EngineRequest['method'];
  readonly form: 'rowset' | 'mddataset' | 'empty' | 'unknown-session';
  /** Of a rowset and a dataset. */
  readonly stamp: Stamp | undefined;
  /** The session in which it was computed; '' without one. */
  readonly computedIn: string;
  /** The session that the answer shows. */
  readonly shown: string | undefined;
  /** The session of the request, and how it names it. */
  readonly session: EngineRequest['session'];
}

/** An answer as it was written. */
export interface SessionAnswer extends Pick<Made, 'stamp'> {
  readonly text: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface SessionModelOptions {
  readonly kind: EngineKind;
  readonly idle?: number;
  /** The clock by which sessions idle (ms). */
  readonly now?: () => number;
  /** Makes the ids of sessions; they need not be new. */
  readonly sessionIds?: () => string;
  /** Whether a request without a session is given one by the engine. */
  readonly implicit?: boolean;
}

/**
 * What an engine of a kind answers, and what it keeps in its sessions: everything that shaped an answer stands in it
 * ({@link Stamp}). Sessions of every kind hold what is made in them, which is the worst that a cache can meet: also of
 * whatever holds the word LEAVE, wherever it stands, as if each engine read it in another way than all others.
 */
export function createSessionModel(options: SessionModelOptions) {
  const {
    kind,
    now = () => performance.now(),
    sessionIds = randomUUID,
    implicit = false,
  } = options;
  const rules: Rules = {
    ...RULES[kind],
    ...(options.idle !== undefined && { idle: options.idle }),
  };
  const style = kind === 'kylin' || kind === 'ssas' ? kind : 'mondrian';
  const sessions = new Map<string, State>();
  /** The latest of each id that is over. */
  const over = new Map<string, State>();
  let data = 1;
  let echoes = 0;

  function drop(id: string): void {
    const state = sessions.get(id);
    sessions.delete(id);
    if (state !== undefined) over.set(id, state);
  }

  function begin(request: EngineRequest): State {
    const made = {
      id: sessionIds(),
      owner: request.user,
      kept: rules.keepsBeginning ? [...effective(request), ...request.versions] : [],
      created: [],
      catalog: '',
      security: '',
      lastAsked: now(),
    };
    sessions.set(made.id, made);
    return made;
  }

  /** The session of a request, and whether there is one that it must not use. */
  function enter(request: EngineRequest): { state: State | undefined; refused: boolean } {
    const { session, user } = request;
    const counts = session.kind !== 'none' && (session.understand || !rules.needsUnderstand);
    if (!counts) return { state: implicit ? begin(request) : undefined, refused: false };
    if (session.kind === 'begin') return { state: begin(request), refused: false };
    const known = sessions.get(session.id);
    const isOver = known === undefined || now() - known.lastAsked > rules.idle;
    if (isOver) drop(session.id);
    const state = isOver || (rules.owner && known.owner !== user) ? undefined : known;
    return { state, refused: state === undefined && rules.unknown === 'fault' };
  }

  /** Reads a request and does what it says. @param body as it came */
  function make(request: EngineRequest, body: Buffer): Made {
    const { method, session, security = '' } = request;
    const { state, refused } = enter(request);
    const made = { method, session, stamp: undefined, computedIn: '', shown: undefined };
    if (refused) return { ...made, form: 'unknown-session' };
    const catalog = propertyOf(request, 'Catalog');
    if (state !== undefined) {
      state.lastAsked = now();
      if (rules.bindsSecurity && security !== '') state.security = security;
      if (rules.keepsBeginning && state.catalog === '') state.catalog = catalog;
      if (body.includes('LEAVE')) state.created.push('LEAVE');
    }
    const shown = shownSession(request, state);
    if (session.kind === 'end') drop(session.id);
    if (method === 'Execute' && !isQuery(request)) {
      execute(request, state);
      return { ...made, shown, form: 'empty' };
    }
    const stamp = stampFor(request, state, catalog);
    const isRows = method === 'Discover' || propertyOf(request, 'Format') === 'Tabular';
    return {
      ...made,
      shown,
      form: isRows ? 'rowset' : 'mddataset',
      stamp,
      computedIn: state?.id ?? '',
    };
  }

  /** The text of an answer, and the headers of its own. */
  function write({ method, form, stamp, computedIn, shown, session }: Made): {
    text: string;
    headers: Record<string, string>;
  } {
    if (form === 'unknown-session') return { text: unknownSession(session.id), headers: {} };
    const frame = { style, shown: session.byHeader ? undefined : shown } as const;
    const headers: Record<string, string> =
      session.byHeader && shown !== undefined ? { 'x-as-sessionid': shown } : {};
    if (form === 'empty' || stamp === undefined) return { text: emptyAnswer(frame), headers };
    return { text: stampedAnswer(form, method, stamp, computedIn, frame), headers };
  }

  function shownSession({ session }: EngineRequest, state: State | undefined): string | undefined {
    switch (session.kind) {
      case 'begin':
        return state?.id;
      case 'none':
        return state?.id;
      case 'end':
        return undefined;
      case 'in': {
        if (rules.needsUnderstand && !session.understand) return undefined;
        echoes += 1;
        const echoed =
          rules.echo === 'always' || (rules.echo === 'every-other' && echoes % 2 === 0);
        return echoed ? session.id : undefined;
      }
    }
  }

  function stampFor(request: EngineRequest, state: State | undefined, catalog: string): Stamp {
    const { security, method, statement, requestType, restrictions, parameters, headers } = request;
    return {
      user: request.user,
      security: security ?? state?.security ?? '',
      created: [...(state?.created ?? [])],
      catalog: catalog === '' ? (state?.catalog ?? '') : catalog,
      data,
      asked: JSON.stringify([method, statement, parameters, requestType, restrictions]),
      kept: state?.kept ?? [],
      properties: effective(request),
      program: rules.readsProgram ? (/^[^/ (]*/.exec(headers['user-agent'] ?? '')?.[0] ?? '') : '',
      versions: request.versions,
    };
  }

  /** What is no query changes its session, or the data for all. */
  function execute({ commands, statement }: EngineRequest, state: State | undefined): void {
    const [word = ''] = withoutComment(statement).toUpperCase().split(/\s/);
    const isUpdate = (one: string) => /^update\s+cube/i.test(one);
    if (commands.some((name) => name !== 'Statement' && name !== 'Cancel')) data += 1;
    else if (
      state === undefined ||
      /^(?:|REFRESH|DRILLTHROUGH|EVALUATE|DEFINE|EXPLAIN)$/.test(word)
    ) {
      return;
    } else if (word === 'COMMIT' || word === 'ROLLBACK') {
      if (word === 'COMMIT' && state.created.some(isUpdate)) data += 1;
      state.created = state.created.filter((one) => !isUpdate(one));
    } else state.created.push(statement);
  }

  return {
    make,
    write,
    /** What an answer would hold now, also in a session that is over; nothing is changed. */
    wouldHold(request: EngineRequest): Stamp {
      const { id } = request.session;
      const state = sessions.get(id) ?? over.get(id);
      return stampFor(request, state, propertyOf(request, 'Catalog'));
    },
    isLive: (id: string) => sessions.has(id),
    drop,
    /** Forgets all sessions, as a server does that starts again. */
    restart: () => sessions.clear(),
  };
}
export type SessionModel = ReturnType<typeof createSessionModel>;

/** The properties that can shape an answer, sorted. */
function effective({ properties }: EngineRequest): Stamp['properties'] {
  return properties
    .filter(([name]) => !WITHOUT_EFFECT.has(name))
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

/** Without those that stand in front. */
const withoutComment = (statement: string) =>
  statement.replace(/^(?:(?:\/\*.*?\*\/|(?:--|\/\/)[^\n]*\n)\s*)+/su, '');

function isQuery({ commands, statement }: EngineRequest): boolean {
  return (
    commands.length === 1 &&
    commands[0] === 'Statement' &&
    /^(select|with)\b/i.test(withoutComment(statement))
  );
}

function unknownSession(id: string): string {
  return faultAnswer()
    .replace(/<faultcode>.*?<\/faultcode>/u, `<faultcode>${UNKNOWN_SESSION}</faultcode>`)
    .replace(
      /<faultstring>.*?<\/faultstring>/u,
      `<faultstring>The session ${encodeURIComponent(id)} has expired or never was</faultstring>`,
    );
}
