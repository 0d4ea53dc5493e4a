import { expect, test } from '@jest/globals';
import { faultAnswer, mddatasetAnswer } from '../support/answers.ts';
import { execute, type SessionSpec } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, until } from '../support/http-client.ts';
import { gate, startStubEngine, type SeenRequest } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** An engine whose answers name the cube, the data that it holds, the user who logged in, and the sets of the session. */
export interface Engine {
  /** What it holds; a load job changes it. */
  data: string;
  /** How it answers from now on. */
  mood: 'well' | 'fault' | 'cut' | 'away';
  /** How many queries it was asked. */
  readonly asked: number;
  readonly url: string;
  /** Holds its next answer, which it has computed by then, until it is let go. */
  holdNext(): { readonly computed: Promise<void>; letGo(): void };
}

/** One user at the gateway, in a session of the engine or without one. */
export interface Client {
  /** Asks for a cube. @param told status of the cache and what the answer says, such as `hit: Sales of Monday` */
  asks(cube: string, told: string | RegExp): Promise<void>;
  /** Sends a statement that is no query. */
  says(statement: string): Promise<void>;
  begins(): Promise<Client>;
}

export interface Scene {
  readonly engine: Engine;
  readonly gateway: TestGateway;
  /** A user whose password is the name. */
  user(name: string, options?: { project?: string; password?: string }): Client;
  /** Calls clearCache as an administrator. It is acknowledged when this resolves. */
  purges(project?: string): Promise<void>;
  /** Waits for what happens by itself. */
  until(condition: () => boolean): Promise<void>;
}

type Settings = Readonly<Record<string, unknown>>;

/** Plays a story with an engine and a gateway of these settings, as its YAML file would hold them. */
export function scenario(
  title: string,
  settings: Settings,
  story: (scene: Scene) => Promise<void>,
) {
  // oxlint-disable-next-line jest/valid-title -- each scenario gives its own
  test(title, async () => {
    const { engine, close } = await startEngine();
    const gateway = await startTestGateway({
      ...settings,
      engine: {
        url: engine.url,
        login: 'none',
        kind: 'mondrian',
        ...(settings['engine'] as object),
      },
    });
    try {
      await story({
        engine,
        gateway,
        until,
        user: (name, { project, password = name.toLowerCase() } = {}) =>
          clientOf(gateway.url, project, {
            authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`,
          }),
        async purges(project) {
          const path = `${pathOf(project)}/clearCache`;
          const headers = { authorization: basic('ADMIN') };
          expect((await send(gateway.url, { path, headers })).status).toBe(200);
        },
      });
    } finally {
      await gateway.close();
      await close();
    }
  });
}

const pathOf = (project: string | undefined) =>
  project === undefined ? '/mdx/xmla' : `/mdx/xmla/${project}`;

function clientOf(
  url: string,
  project: string | undefined,
  headers: Readonly<Record<string, string>>,
  session?: SessionSpec,
): Client {
  const ask = (statement: string, inSession = session) => {
    const properties = { Catalog: project ?? 'Shop' };
    const body = execute({ statement, properties, ...(inSession && { session: inSession }) });
    return askXmla(url, body, { path: pathOf(project), headers });
  };
  return {
    async asks(cube, told) {
      const answer = await ask(`SELECT FROM [${cube}]`);
      const said = /<Caption>(.*?)<\/Caption>/.exec(answer.text)?.[1] ?? 'no data';
      const body = answer.text.includes('Fault>') ? 'fault' : said;
      const words = `${shortStatus(answer)}: ${answer.whole ? body : 'cut'}`;
      expect(answer.status === 401 ? '401' : words).toEqual(
        typeof told === 'string' ? told : expect.stringMatching(told),
      );
    },
    says: async (statement) => void expect((await ask(statement)).status).toBe(200),
    async begins() {
      const { text } = await ask('', { kind: 'begin' });
      const id = /SessionId="([^"]+)"/.exec(text)?.[1] ?? 'none';
      return clientOf(url, project, headers, { kind: 'in', id });
    },
  };
}

async function startEngine() {
  /** The sets of each session. */
  const sessions = new Map<string, string[]>();
  let asked = 0;
  let held: ReturnType<typeof gate>[] | undefined;

  function answerTo({ headers, body }: SeenRequest): string {
    if (engine.mood === 'fault') return faultAnswer();
    const text = body.toString();
    const id = /SessionId="([^"]+)"/.exec(text)?.[1] ?? `S-${sessions.size + 1}`;
    if (text.includes('BeginSession')) sessions.set(id, []);
    const sets = sessions.get(id);
    const header =
      sets && `<Session xmlns="urn:schemas-microsoft-com:xml-analysis" SessionId="${id}"/>`;
    const made = /CREATE SESSION SET \[(\w+)\]/.exec(text)?.[1];
    if (made !== undefined) sets?.push(made);
    const cube = /FROM \[(\w+)\]/.exec(text)?.[1];
    if (cube !== undefined) asked += 1;
    const login = String(headers.authorization ?? '').split(' ')[1];
    const user = login && ` for ${Buffer.from(login, 'base64').toString().split(':')[0]}`;
    const shaped = (sets ?? []).map((name) => ` with ${name}`).join('');
    const members = [`${cube} of ${engine.data}${user ?? ''}${shaped}`];
    return mddatasetAnswer({ members, ...(header && { header }) });
  }

  const stub = await startStubEngine(async (response, request) => {
    if (engine.mood === 'away') return void response.destroy();
    const text = answerTo(request);
    const [computed, door] = held ?? [];
    held = undefined;
    computed?.open();
    await door?.opened;
    const length = Buffer.byteLength(text);
    response.writeHead(200, { 'content-type': 'text/xml', 'content-length': length });
    if (engine.mood !== 'cut') return void response.end(text);
    response.write(text.slice(0, length / 2), () => response.destroy());
  });
  const engine = {
    data: 'Monday',
    mood: 'well' as Engine['mood'],
    url: stub.url,
    get asked() {
      return asked;
    },
    holdNext() {
      const [computed, door] = [gate(), gate()];
      held = [computed, door];
      return { computed: computed.opened, letGo: door.open };
    },
  };
  return { engine, close: stub.close };
}
