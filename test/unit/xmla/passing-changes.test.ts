import { describe, expect, test } from '@jest/globals';
import { passingChange } from '../../../src/xmla/passing-changes.ts';
import { readRequest } from '../../../src/xmla/read-request.ts';
import type { XmlaRequest } from '../../../src/xmla/xmla-request.ts';
import { discover, execute } from '../../support/envelopes.ts';

function requestOf(body: Buffer): XmlaRequest {
  const reading = readRequest(body, 'text/xml; charset=utf-8');
  if (reading.kind !== 'understood') throw new Error(JSON.stringify(reading));
  return reading.request;
}

const changeOf = (statement: string) => passingChange(requestOf(execute({ statement })));

function commandOf(command: string) {
  const body = execute({ statement: '' }).toString();
  return passingChange(requestOf(Buffer.from(body.replace('<Statement></Statement>', command))));
}

describe('what changes data or definitions is seen, however it is written', () => {
  const named = { reach: 'named', refresh: false, leavesState: true };
  test.each([
    ['UPDATE CUBE [Sales] SET ([a].[b]) = 1', named],
    ['update\tcube [Sales] set x = 1', named],
    ['-- a comment\nUPDATE /* and one */ CUBE [Sales] SET x = 1', named],
    ['COMMIT TRAN', named],
    ['COMMIT', named],
    ['BEGIN TRAN; COMMIT', named],
    ['ALTER CUBE [Sales] UPDATE DIMENSION [a], DEFAULT_MEMBER=[a].[b]', named],
    ['REFRESH CUBE [Sales]', { reach: 'named', refresh: true, leavesState: false }],
    ['refresh  Cube Sales', { reach: 'named', refresh: true, leavesState: false }],
    ['REFRESH CUBE [a]; COMMIT', { ...named }],
    [
      '{ "refresh": { "type": "full" } }',
      { reach: 'everything', refresh: false, leavesState: false },
    ],
  ])('%j', (statement, change) => {
    expect(changeOf(statement)).toEqual(change);
  });

  test.each(['Process', 'ClearCache', 'Alter', 'Create', 'Delete', 'MergePartitions', 'Restore'])(
    'the command %s',
    (name) => {
      const change = { reach: 'everything', refresh: false, leavesState: false };
      expect(
        commandOf(`<${name} xmlns="http://schemas.microsoft.com/analysisservices/2003/engine"/>`),
      ).toEqual(change);
    },
  );

  test('a Batch may hold anything', () => {
    expect(commandOf('<Batch><Statement>CREATE SET x AS {}</Statement></Batch>')).toEqual({
      reach: 'everything',
      refresh: false,
      leavesState: true,
    });
  });
});

describe('what changes nothing for others is no change', () => {
  test.each([
    'SELECT [UPDATE] ON 0 FROM [COMMIT]',
    "WITH MEMBER [a] AS 'COMMIT' SELECT [a] ON 0 FROM [b]",
    '',
    'CREATE SESSION MEMBER [Sales].[Measures].[x] AS 1',
    'DRILLTHROUGH SELECT [a] ON 0 FROM [b]',
    'BEGIN TRAN',
    'ROLLBACK',
    'REFRESH',
    "SELECT '; COMMIT' ON 0 FROM [b]",
  ])('%j', (statement) => {
    expect(changeOf(statement)).toBeUndefined();
  });

  test.each(['Cancel', 'Backup', 'Subscribe'])('the command %s', (name) => {
    expect(commandOf(`<${name}/>`)).toBeUndefined();
  });

  test('a Discover', () => {
    expect(passingChange(requestOf(discover({ requestType: 'COMMIT' })))).toBeUndefined();
  });
});
