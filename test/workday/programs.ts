import { loadRecordings } from '../../src/demo/replay-engine.ts';
import { questionOf, type Question } from '../engine/question.ts';
import { CACHEABLE_REQUESTS } from '../engine/requests.ts';
import { discover, execute, type SessionSpec } from '../support/envelopes.ts';
import {
  ASKED as EXCEL_QUESTIONS,
  EXCEL_HEADERS,
  excelBegin,
  excelEnd,
  excelRequest,
  excelStatement,
  GROUPING,
  type ExcelRequest,
} from '../support/excel-session.ts';
import { THIRD_PARTY_CLIENTS, type ThirdPartyClient } from '../support/third-party-clients.ts';
import { asToolkit } from '../support/toolkits.ts';
import type { Asked } from './plan.ts';

export interface Written {
  readonly body: Buffer;
  readonly headers: Readonly<Record<string, string>>;
  /** What is asked, in short. */
  readonly asked: string;
}

/** A program that people use, and how it writes what they ask. */
export interface Program {
  readonly hasSessions: boolean;
  /** @param session '' without one */
  ask(asked: Asked, session: string): Written;
  begin(): Written;
  change(session: string): Written;
  end(session: string): Written;
}

const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const SESSION_MEMBER = "CREATE SESSION MEMBER [Sales].[Measures].[Own] AS '1'";

/** What was recorded before a real engine: pivots in the breadth of MDX, names in all letters, metadata. */
const RECORDED: readonly Question[] = [
  ...(await loadRecordings()).map(({ name, request: { body } }) => questionOf({ name, body })),
  ...CACHEABLE_REQUESTS.map(questionOf),
];

const statementQuestion = (statement: string): Question => ({
  method: 'Execute',
  requestType: '',
  restrictions: [],
  statement,
  parameters: [],
  properties: [
    ['Catalog', 'Bazaar'],
    ['Format', 'Multidimensional'],
    ['AxisFormat', 'TupleFormat'],
  ],
});

/** A workbook works in one catalog. */
const OF_ONE_CATALOG = RECORDED.filter(({ properties }) =>
  properties.some(([name, value]) => name === 'Catalog' && value === 'Bazaar'),
);

function questionFor(asked: Asked, session: string): Question {
  if (typeof asked === 'string') return statementQuestion(asked);
  const list = session === '' ? RECORDED : OF_ONE_CATALOG;
  return list[asked % list.length] as Question;
}

const excel: Program = {
  hasSessions: true,
  ask: (asked, session) =>
    excelWritten(
      excelRequest(
        typeof asked === 'number' ? (EXCEL_QUESTIONS[asked % EXCEL_QUESTIONS.length] ?? '') : asked,
        session,
      ),
    ),
  begin: () => excelWritten(excelBegin()),
  change: (session) => excelWritten(excelStatement(GROUPING, session)),
  end: (session) => excelWritten(excelEnd(session)),
};

function excelWritten({ body, soapAction, question }: ExcelRequest): Written {
  const headers = { ...EXCEL_HEADERS, 'content-type': 'text/xml', soapaction: soapAction };
  return { body, headers: { ...headers, ...lengthOf(body) }, asked: question };
}

function thirdParty(client: ThirdPartyClient): Program {
  const written = (question: Question, session: SessionSpec | undefined): Written => {
    const body = client.write(question, session);
    const action = `${XMLA}:${question.method}`;
    const headers = {
      ...client.headers,
      ...(client.soapAction !== 'none' && {
        soapaction: client.soapAction === 'quoted' ? `"${action}"` : action,
      }),
      ...(client.chunked ? { 'transfer-encoding': 'chunked' } : lengthOf(body)),
    };
    return { body, headers, asked: question.statement || question.requestType };
  };
  const nothing = { ...statementQuestion(''), properties: [] };
  const inSession = (id: string): SessionSpec | undefined =>
    id === '' ? undefined : { kind: 'in', id };
  return {
    hasSessions: client.session,
    ask: (asked, session) => written(questionFor(asked, session), inSession(session)),
    begin: () => written(nothing, { kind: 'begin' }),
    change: (id) => written(statementQuestion(SESSION_MEMBER), { kind: 'in', id }),
    end: (id) => written(nothing, { kind: 'end', id }),
  };
}

/** A SOAP toolkit, which types its texts and writes nil for what is empty. */
const toolkit = thirdParty({
  name: 'SOAP toolkit',
  headers: { 'content-type': 'text/xml; charset=utf-8', 'user-agent': 'gSOAP/2.8' },
  soapAction: 'quoted',
  chunked: false,
  session: false,
  write({ method, requestType, restrictions, statement, properties }) {
    const body =
      method === 'Execute'
        ? execute({ statement, properties: named(properties) })
        : discover({
            requestType,
            properties: named(properties),
            restrictions: restrictions.map(([name, values]) =>
              typeof values === 'string'
                ? { name, form: 'plain', values: [values] }
                : { name, form: 'value', values },
            ),
          });
    return asToolkit(body, { typed: ['RequestType', 'Statement'], type: 'xsd:string', nil: true });
  },
});

const named = (pairs: Question['properties']) => pairs.map(([name, value]) => ({ name, value }));

const lengthOf = (body: Buffer) => ({ 'content-length': String(body.length) });

const PROGRAMS: ReadonlyMap<string, Program> = new Map([
  ['Excel', excel],
  ['SOAP toolkit', toolkit],
  ...THIRD_PARTY_CLIENTS.map((client) => [client.name, thirdParty(client)] as const),
]);

export const programNames: readonly string[] = PROGRAMS.keys().toArray();

export function programOf(name: string): Program {
  const program = PROGRAMS.get(name);
  if (program === undefined) throw new Error(`there is no program ${name}`);
  return program;
}
