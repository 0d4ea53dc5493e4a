import { ENGINE_KINDS, type EngineKind } from '../../../src/common/engine-kinds.ts';
import { mddatasetAnswer, response } from '../answers.ts';
import {
  type EngineRequest,
  type Named,
  propertyOf,
  readEngineRequest,
} from '../engine-request.ts';
import { sendXml, startStubEngine, type SeenRequest } from '../stub-engine.ts';

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';

/** How an engine reads and answers DISCOVER_PROPERTIES; each list begins with what most of them do. */
export const NATURES = {
  /** What it takes for names: each text, all text of a restriction, the first one, or no restriction at all. */
  reads: ['each', 'each', 'alike', 'joined', 'first', 'everything'],
  /** Of which properties there are rows: of all, of those that were sent or have a value of the server, of those with a value. */
  rows: ['all', 'present', 'told'],
  /** How a row spells its name. */
  spells: ['own', 'asked', 'padded'],
  /** Whether it makes an id of its own for each request. */
  makes: [false, true],
  /** A property that it tells unasked. */
  more: ['', '', 'Timeout'],
  /** Where the value stands, and the name. */
  columns: ['usual', 'usual', 'other value', 'in parts', 'no name', 'two names'],
} as const;
export type Nature = { readonly [Name in keyof typeof NATURES]: (typeof NATURES)[Name][number] };

export const USUAL: Nature = {
  ...{ reads: 'each', rows: 'all', spells: 'own', makes: false, more: '', columns: 'usual' },
};

/** Those that have a value though they are not sent. */
const OF_SERVER = ['ProviderVersion', 'DBMSVersion', 'Catalog', 'UserName'];
export const IGNORED_HERE = ['Timeout', 'ApplicationContext', 'DbpropMsmdActivityID'];
const KNOWN = [...OF_SERVER, ...IGNORED_HERE, 'Format', 'LocaleIdentifier'];

interface Begun {
  readonly properties: readonly Named[];
  catalog: string;
}

export interface ToldEngineOptions {
  readonly kind: EngineKind;
  readonly nature: Nature;
  /** Whether its users differ. */
  readonly byUser: boolean;
}

export type ToldEngine = Awaited<ReturnType<typeof startToldEngine>>;

/**
 * An engine that answers DISCOVER_PROPERTIES by everything that reaches it: values, names and presence of properties, the
 * list that is asked for, what its session was begun with and its catalog, and who asks.
 */
export async function startToldEngine({ kind, nature, byUser }: ToldEngineOptions) {
  const { keepsProperties } = ENGINE_KINDS[kind];
  const tellsUnasked = nature.more !== '' || nature.reads === 'everything';
  // What it tells unasked it tells whatever the value: else no cache could see that it does.
  const rows = tellsUnasked && nature.rows === 'told' ? 'all' : nature.rows;
  const sessions = new Map<string, Begun>();
  const asked: EngineRequest[] = [];
  let made = 0;
  let begun = 0;
  /** A request with this text is taken up only when the promise resolves. */
  let late: { readonly text: string; readonly until: Promise<void> } | undefined;

  const fold = (name: string) => name.normalize('NFKC').trim().toLowerCase();
  const isSame = (one: string, other: string) =>
    nature.reads === 'alike' ? fold(one) === fold(other) : one.trim() === other;

  /** Names it is asked for, as spelt. */
  function namesIn({ restrictions }: EngineRequest): readonly string[] {
    const texts = restrictions
      .filter(([name]) => name === 'PropertyName')
      // The texts of `Value` stand in angle brackets.
      .map(([, text]) => (text.startsWith('<') ? text.slice(1, -1).split('><') : [text]));
    if (texts.length === 0 || nature.reads === 'everything') return KNOWN;
    if (nature.reads === 'joined') return texts.map((list) => list.join(''));
    return nature.reads === 'first' ? texts.map(([first = '']) => first) : texts.flat();
  }

  function rowsOf(request: EngineRequest, session: Begun | undefined): string {
    const { properties, restrictions, user } = request;
    const kept = keepsProperties ? (session?.properties ?? []) : [];
    const sent = (name: string) => [...properties, ...kept].find(([one]) => isSame(one, name));
    const isKeyed = ([name]: Named) => !IGNORED_HERE.includes(name);
    const who = byUser ? user : '';
    const current = keepsProperties ? (session?.catalog ?? '') : '';
    /** All that shapes an answer, and nothing else. */
    const shaped = [restrictions, properties, kept].map((list) => [
      list.filter(isKeyed).sort(),
      list.map(([name]) => name).sort(),
    ]);

    function valueOf(name: string): string {
      const [, own] = sent(name) ?? [];
      switch (name) {
        case 'ProviderVersion':
          return JSON.stringify([shaped, restrictions, current, who]);
        case 'DBMSVersion':
          return '16.0';
        case 'Catalog': {
          // MDX for Kylin reads its definitions anew.
          const read = kind === 'kylin' ? ` made-${(made += 1)}` : '';
          return `${own || current || `default ${who}`}${read}`;
        }
        case 'UserName':
          return user;
        case 'DbpropMsmdActivityID':
          return own ?? (nature.makes ? `made-${(made += 1)}` : '');
        default:
          return own ?? '';
      }
    }

    function rowOf(asked: string): string {
      const name = KNOWN.find((known) => isSame(asked, known));
      if (name === undefined) return '';
      const value = valueOf(name);
      const isPresent = sent(name) !== undefined || OF_SERVER.includes(name);
      if (rows === 'present' && !isPresent) return '';
      if (rows === 'told' && value === '') return '';
      const spelt = { own: name, asked, padded: ` ${name}\n` }[nature.spells];
      const inName = nature.columns === 'no name' ? 'Name' : 'PropertyName';
      const second =
        nature.columns === 'two names' ? '<PropertyName>DBMSVersion</PropertyName>' : '';
      const inValue = nature.columns === 'other value' ? 'CurrentValue' : 'Value';
      const shown =
        nature.columns === 'in parts' && value !== ''
          ? `<Part>${escaped(value)}</Part>`
          : escaped(value);
      return (
        `<row><${inName}>${escaped(spelt)}</${inName}><PropertyDescription>A property</PropertyDescription>` +
        `<IsRequired>false</IsRequired>${second}<${inValue}>${shown}</${inValue}></row>`
      );
    }

    return [...namesIn(request), ...[nature.more].filter(Boolean)].map(rowOf).join('');
  }

  /** The rows of an answer at this moment. */
  function told(request: EngineRequest): string {
    const { requestType } = request;
    const session = sessions.get(request.session.id);
    if (requestType === 'DISCOVER_PROPERTIES') return rowsOf(request, session);
    if (requestType.startsWith('DISCOVER_')) return `<row><NAME>${requestType}</NAME></row>`;
    const catalog = propertyOf(request, 'Catalog') || (keepsProperties && session?.catalog) || '';
    return `<row><CUBE_NAME>cubes of ${catalog}</CUBE_NAME></row>`;
  }

  function take(request: EngineRequest): { readonly id: string; readonly isShown: boolean } {
    const { session, properties } = request;
    const catalog = propertyOf(request, 'Catalog');
    if (session.kind === 'begin') {
      const id = `session-${(begun += 1)}`;
      sessions.set(id, { properties, catalog });
      return { id, isShown: true };
    }
    const state = sessions.get(session.id);
    if (state !== undefined && catalog !== '') state.catalog = catalog;
    return { id: session.id, isShown: session.kind === 'in' && !session.byHeader };
  }

  const stub = await startStubEngine(async (answer, seen: SeenRequest) => {
    stub.seen.length = 0;
    if (late !== undefined && seen.body.includes(late.text)) await late.until;
    const request = readEngineRequest(seen.body, seen.headers);
    asked.push(request);
    const { id, isShown } = take(request);
    const header = isShown ? `<Session xmlns="${XMLA}" SessionId="${id}"/>` : '';
    const { method, statement } = request;
    const isRowset = method === 'Discover';
    const text = statement.startsWith('SELECT')
      ? mddatasetAnswer({ header, members: [statement.slice(0, 40).replaceAll('&', '&amp;')] })
      : response(method, isRowset ? 'rowset' : 'empty', isRowset ? told(request) : '', { header });
    await sendXml(text)(answer, seen);
    if (request.session.kind === 'end') sessions.delete(id);
  });

  return {
    url: stub.url,
    /** In the order in which they came. */
    asked,
    told,
    close: stub.close,
    /** Until it is called, a request with this text is on its way. */
    delay(text: string): () => void {
      const { promise: until, resolve } = Promise.withResolvers<void>();
      late = { text, until };
      return resolve;
    },
  };
}

const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
