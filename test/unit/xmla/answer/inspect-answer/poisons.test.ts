import { describe, expect, test } from '@jest/globals';
import { ENGINE_KINDS } from '../../../../../src/common/engine-kinds.ts';
import type { EngineKind } from '../../../../../src/common/engine-kinds.ts';
import type { RefusalReason } from '../../../../../src/common/reasons.ts';
import { inspectAnswer, refuseByHead } from '../../../../../src/xmla/answer/inspect-answer.ts';
import {
  KYLIN_MESSAGE,
  brokenOffAnswer,
  errorCellAnswer,
  faultAnswer,
  kylinErrorAnswer,
  mddatasetAnswer,
  response,
  rowsetAnswer,
} from '../../../../support/answers.ts';

const KINDS = Object.keys(ENGINE_KINDS) as EngineKind[];
const JAVA: readonly EngineKind[] = ['generic', 'mondrian', 'emondrian', 'kylin'];
const DATASET: readonly EngineKind[] = ['generic', 'kylin'];

interface Poison {
  readonly name: string;
  readonly answer: string;
  readonly reason: RefusalReason;
  /** by which kinds it is taken for an error */
  readonly of: readonly EngineKind[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly status?: number;
}

const value = (content: string, type = ''): string =>
  mddatasetAnswer({ cell: () => `<Value${type}>${content}</Value>` });
const EXCEPTION = 'mondrian.olap.fun.MondrianEvaluationException: no such member';
const GOOD = mddatasetAnswer();
const inData = (element: string): string => GOOD.replace('</CellData>', `${element}</CellData>`);

/** The list of what may never be stored, though its status is 200. */
const POISON: readonly Poison[] = [
  { name: 'a Fault', answer: faultAnswer(), reason: 'fault', of: KINDS },
  { name: 'a break in the cells', answer: brokenOffAnswer(), reason: 'fault', of: KINDS },
  ...['Fault', 'Exception', 'Error', 'Messages', 'Warning'].map((name): Poison => ({
    name: `an element ${name}`,
    answer: inData(`<${name}/>`),
    reason: 'fault',
    of: KINDS,
  })),
  { name: 'the sign of an error', answer: errorCellAnswer(), reason: 'error-cell', of: KINDS },
  {
    name: 'the same as CDATA',
    answer: value('<![CDATA[#ERR:]]>'),
    reason: 'error-cell',
    of: KINDS,
  },
  {
    name: 'an empty root',
    answer: response('Execute', 'empty', ''),
    reason: 'answer-shape',
    of: KINDS,
  },
  {
    name: 'several results',
    answer: response('Execute', 'multipleresults', ''),
    reason: 'answer-shape',
    of: KINDS,
  },
  { name: 'another response', answer: rowsetAnswer(), reason: 'answer-shape', of: KINDS },
  { name: 'no end', answer: GOOD.slice(0, -20), reason: 'not-well-formed', of: KINDS },
  { name: 'an end too early', answer: `${GOOD}<a/>`, reason: 'not-well-formed', of: KINDS },
  { name: 'a Java exception', answer: value(EXCEPTION), reason: 'error-cell', of: JAVA },
  { name: 'a dataset of an error', answer: kylinErrorAnswer(), reason: 'error-cell', of: DATASET },
  {
    name: 'the same without a text',
    answer: kylinErrorAnswer(''),
    reason: 'error-cell',
    of: DATASET,
  },
  { name: 'the text of that', answer: value(KYLIN_MESSAGE), reason: 'error-cell', of: DATASET },
  { name: 'a member dummy', answer: value('dummy'), reason: 'error-cell', of: DATASET },
  {
    name: 'an apology',
    answer: value('Something error, please refer to mdx log'),
    reason: 'error-cell',
    of: DATASET,
  },
  {
    name: 'a type without a namespace',
    answer: value('no realization found', ' xsi:type="string"'),
    reason: 'error-cell',
    of: DATASET,
  },
  {
    name: 'a header that says no',
    answer: GOOD,
    headers: { success: 'false' },
    reason: 'error-cell',
    of: DATASET,
  },
  {
    name: 'a page',
    answer: GOOD,
    headers: { 'content-type': 'text/html' },
    reason: 'media-type',
    of: KINDS,
  },
  {
    name: 'a binary form',
    answer: GOOD,
    headers: { 'content-type': 'application/sx' },
    reason: 'media-type',
    of: KINDS,
  },
  { name: 'another status', answer: GOOD, status: 500, reason: 'engine-status', of: KINDS },
];

function verdict(
  kind: EngineKind,
  poison: Omit<Poison, 'reason' | 'of'>,
): RefusalReason | undefined {
  const { errorsAsData, successHeader } = ENGINE_KINDS[kind];
  const headers = { 'content-type': 'text/xml', ...poison.headers };
  const byHead = refuseByHead({ status: poison.status ?? 200, headers }, successHeader);
  if (byHead !== undefined) return byHead;
  const inspector = inspectAnswer({
    contentType: headers['content-type'],
    method: 'Execute',
    errorsAsData,
  });
  inspector.write(Buffer.from(poison.answer));
  const inspection = inspector.end();
  return inspection.ok ? undefined : inspection.reason;
}

describe.each(KINDS)('an engine of the kind %s', (kind) => {
  test.each(POISON)('$name is stored only where it is genuine', (poison) => {
    expect(verdict(kind, poison)).toBe(poison.of.includes(kind) ? poison.reason : undefined);
  });

  test('has genuine answers', () => {
    expect(verdict(kind, { name: 'a dataset', answer: GOOD })).toBeUndefined();
  });
});
