import type { Agent } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import { readEngineRequest } from '../support/engine-request.ts';
import { createSessionModel, type Made } from '../support/session-model.ts';
import { ask, connectionsFrom } from './client.ts';
import { asTheEngineReads, judge } from './judge.ts';
import { machineTime, type Deed, type Judgement, type Outcome } from './outcome.ts';
import { authorizationOf, type Act, type Asked, type Person, type Plan } from './plan.ts';
import { programOf, type Written } from './programs.ts';

/** What all people of a scene know together: the house, and how old answers may be. */
export interface Scene {
  readonly plan: Plan;
  /** When the scene began, by the clock of the machine. */
  readonly began: number;
  readonly outcomes: Outcome[];
  /** The version of the data that the last acknowledged purge has made the oldest. */
  leastData(): number;
  /** Loads data at all engines. @returns what makes it the oldest that may be shown, once a purge is acknowledged */
  load(): Promise<() => void>;
}

interface Session {
  readonly id: string;
  readonly began: number;
  hasCatalog: boolean;
  /** Whether it was told that the session is not known. */
  isLost: boolean;
}

/** Excel names the catalog with the third request of its session: so many behind the first do not. */
const UNNAMED = 1;
const CATALOG = '<Catalog>FoodMart</Catalog>';

export async function live(person: Person, scene: Scene): Promise<void> {
  const agent = connectionsFrom(person.address, scene.plan.ca);
  const desk = createDesk(person, scene, agent);
  await Promise.all(
    person.acts.map(async (act) => {
      const due = scene.began + act.at;
      await delay(Math.max(0, due - machineTime()));
      await desk.act(act, due);
    }),
  );
  agent.destroy();
}

/** One person before one program. */
function createDesk(person: Person, scene: Scene, agent: Agent) {
  const program = programOf(person.program);
  const engine = createMirror(person, scene.plan);
  /** Of the workbook that is open; resolves to undefined when none could be begun. */
  let session: Promise<Session | undefined> = Promise.resolve(undefined);
  /** What is under way in it. */
  const underWay = new Set<Promise<unknown>>();

  async function act(one: Act, due: number): Promise<void> {
    switch (one.do) {
      case 'open': {
        if (!program.hasSessions) return await askAll(one.questions, due);
        // Nothing else is asked in a session before it is known in which catalog it is.
        const [first, second, ...others] = one.questions;
        const opening = begin(due, one.catalogLater).then(async (open) => {
          if (open !== undefined) await settle(open, [first, second], one.catalogLater);
          return open;
        });
        session = opening;
        if ((await opening) === undefined) return;
        return await askAll(others, machineTime());
      }
      case 'ask':
        return await askAll(one.questions, due);
      case 'change':
        session = alone((open) => change(open, due));
        return void (await session);
      case 'close':
        session = alone((open) => end(open, due));
        return void (await session);
      case 'load':
        return await load(due, one.purgesAt);
    }
  }

  /** What changes the session goes alone: else nothing would tell what the answers beside it have to hold. */
  async function alone(work: (open: Session) => Promise<Session | undefined>) {
    const before = [session, ...underWay] as const;
    await Promise.allSettled(before);
    const open = await before[0];
    return open && (await work(open));
  }

  async function begin(due: number, catalogLater: boolean): Promise<Session | undefined> {
    const usual = program.begin();
    const written = catalogLater ? withoutCatalog(usual) : usual;
    const began = machineTime();
    const { outcome, received } = await send('begin', written, due);
    const [, id] = /<Session\b[^>]* SessionId="([^"]*)"/.exec(received.head.toString()) ?? [];
    if (outcome.verdict !== 'right' || id === undefined) return undefined;
    engine.begin(written, id);
    return { id, began, hasCatalog: written.body.includes(CATALOG), isLost: false };
  }

  /** A workbook asks one thing after the other; who gets no answer at all gives up. */
  async function askAll(questions: readonly Asked[], due: number): Promise<void> {
    let dueNow = due;
    for (const asked of questions) {
      const asking = askOne(asked, dueNow);
      underWay.add(asking);
      const answered = await asking.finally(() => underWay.delete(asking));
      if (!answered) return;
      dueNow = machineTime();
    }
  }

  /** @returns whether there was an answer */
  async function askOne(asked: Asked, due: number): Promise<boolean> {
    if (!program.hasSessions) return await askIn(undefined, asked, due);
    const current = session;
    let open = await current;
    if (open === undefined || open.isLost) {
      // As programs do. One that is being changed or ended meanwhile is left to that.
      if (session === current) session = begin(due, false);
      else return false;
      open = await session;
    }
    return open !== undefined && (await askIn(open, asked, due));
  }

  /** The first questions of a session. */
  async function settle(
    open: Session,
    questions: readonly (Asked | undefined)[],
    catalogLater: boolean,
  ): Promise<void> {
    for (const [at, asked] of questions.entries()) {
      if (asked === undefined) continue;
      await askIn(open, asked, machineTime(), catalogLater && at < UNNAMED);
    }
  }

  async function askIn(
    open: Session | undefined,
    asked: Asked,
    due: number,
    namesNoCatalog = false,
  ): Promise<boolean> {
    const usual = program.ask(asked, open?.id ?? '');
    const written = namesNoCatalog ? withoutCatalog(usual) : usual;
    const isFirst = open?.hasCatalog === false && !namesNoCatalog;
    const { outcome, received } = await send(isFirst ? 'first-catalog' : 'ask', written, due, open);
    if (isFirst && outcome.verdict === 'right') open.hasCatalog = true;
    if (open !== undefined && /unknown-session/.test(outcome.words)) open.isLost = true;
    return received.status !== 0;
  }

  async function change(open: Session, due: number): Promise<Session | undefined> {
    const written = program.change(open.id);
    const { outcome, received } = await send('change', written, due, open);
    if (outcome.verdict === 'right') engine.apply(written);
    // Nothing tells whether the engine has done it, or will.
    return received.status === 0 || received.status === 504 ? undefined : open;
  }

  async function end(open: Session, due: number): Promise<undefined> {
    await send('end', program.end(open.id), due, open);
  }

  async function load(due: number, purgesAt = 0): Promise<void> {
    const count = await scene.load();
    await delay(Math.max(0, scene.began + purgesAt - machineTime()));
    const sent = machineTime();
    const { received, answered } = await get('/mdx/xmla/clearCache');
    const isDone = received.status === 200;
    if (isDone) count();
    const text = received.head.toString().slice(0, 80).trim();
    const judgement: Judgement = {
      verdict: isDone ? 'right' : 'refused',
      words: isDone ? 'purged' : `clearCache: ${received.status} ${received.broken ?? text}`,
    };
    note({ ...judgement, deed: 'purge', asked: 'clearCache', due, sent, answered });
  }

  const authorization = authorizationOf(person);
  const { url } = scene.plan;
  const to = { url, agent, patience: person.patience };

  async function get(path: string) {
    const headers = { authorization };
    const body = Buffer.alloc(0);
    const received = await ask({ ...to, path, headers, body, method: 'GET' });
    return { received, answered: machineTime() };
  }

  async function send(deed: Deed, { body, headers, asked }: Written, due: number, open?: Session) {
    const leastData = scene.leastData();
    const session = open?.id ?? '';
    const { isShared } = scene.plan;
    const made = engine.expect(deed, { body, headers, asked });
    const sent = machineTime();
    const path = `/mdx/xmla/${person.kind}`;
    const all = { ...headers, authorization };
    const received = await ask({ ...to, path, body, headers: all, method: 'POST' });
    const answered = machineTime();
    const expected = { made, session, leastData, isShared };
    const judgement = judge(expected, received, engine.write);
    return { received, outcome: note({ ...judgement, deed, asked, due, sent, answered }, open) };
  }

  function note(found: Omit<Outcome, 'person' | 'kind' | 'sessionBegan'>, open?: Session): Outcome {
    const { name, kind } = person;
    const outcome = { ...found, person: name, kind, sessionBegan: open?.began };
    scene.outcomes.push(outcome);
    return outcome;
  }

  return { act };
}

/** Excel's; other programs name theirs as they do. */
function withoutCatalog(written: Written): Written {
  if (!written.body.includes(CATALOG)) return written;
  const body = Buffer.from(written.body.toString().replace(CATALOG, ''));
  const headers = { ...written.headers, 'content-length': String(body.length) };
  return { ...written, body, headers };
}

/** The engine as this person must see it: the same rules over the person's own sessions, and nothing else. */
function createMirror(person: Person, { forwardsLogin }: Plan) {
  let id = '';
  const model = createSessionModel({ kind: person.kind, sessionIds: () => id });
  const authorization = authorizationOf(person);
  const make = ({ body, headers }: Written): Made => {
    const request = readEngineRequest(body, { ...headers, authorization });
    return model.make(asTheEngineReads(request, forwardsLogin), body);
  };
  return {
    write: model.write,
    /** What begins, changes or ends a session counts when it is known to be done. */
    expect: (deed: Deed, written: Written) =>
      deed === 'ask' || deed === 'first-catalog' ? make(written) : NO_DATA,
    begin(written: Written, as: string) {
      id = as;
      make(written);
    },
    apply: (written: Written) => void make(written),
  };
}

/** The answer to what is no query. */
const NO_DATA: Made = {
  method: 'Execute',
  form: 'empty',
  stamp: undefined,
  computedIn: '',
  shown: undefined,
  session: { kind: 'none', id: '', understand: false, byHeader: false },
};
