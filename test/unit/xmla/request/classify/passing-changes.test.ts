import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import {
  classify,
  leavesState,
  passingChange,
  type PassingChange,
} from '../../../../../src/xmla/request/classify.ts';
import { readRequest, type XmlaRequest } from '../../../../../src/xmla/request/read-request.ts';
import { ENGINE_KINDS } from '../../../../../src/common/engine-kinds.ts';
import { discover, execute } from '../../../../support/envelopes.ts';
import { sizes } from '../../../../support/sizes.ts';

function requestOf(body: Buffer): XmlaRequest {
  const reading = readRequest(body, 'text/xml; charset=utf-8');
  if (reading.kind !== 'understood') throw new Error(JSON.stringify(reading));
  return reading.request;
}

/** What it changes, without the words for the log. */
function changeBy(request: XmlaRequest): PassingChange | undefined {
  const change = passingChange(request);
  if (change === undefined) return undefined;
  const { why: _, ...rest } = change;
  return rest;
}
const changeOf = (statement: string) => changeBy(requestOf(execute({ statement })));

function commandsOf(commands: string): XmlaRequest {
  const body = execute({ statement: '' }).toString();
  return requestOf(Buffer.from(body.replace('<Statement></Statement>', () => commands)));
}
const commandOf = (command: string) => changeBy(commandsOf(command));
const AS = 'http://schemas.microsoft.com/analysisservices/2003/engine';

const NAMED: PassingChange = {
  reach: 'named',
  refresh: false,
  leavesState: true,
  undoneByFault: true,
};
const EVERYTHING: PassingChange = { ...NAMED, reach: 'everything' };
const REFRESH: PassingChange = { ...NAMED, refresh: true, leavesState: false };
const COMMAND: PassingChange = { ...EVERYTHING, leavesState: false };
/** Of several, what was done before a Fault stays done. */
const several = (change: PassingChange) => ({ ...change, leavesState: true, undoneByFault: false });

describe('what changes data or definitions is seen, however it is written', () => {
  test.each([
    ['UPDATE CUBE [Sales] SET ([a].[b]) = 1', NAMED],
    ['update\tcube [Sales] set x = 1', NAMED],
    ['-- a comment\nUPDATE /* and one */ CUBE [Sales] SET x = 1', NAMED],
    ['COMMIT TRAN', EVERYTHING],
    ['COMMIT', EVERYTHING],
    ['BEGIN TRAN; COMMIT', several(EVERYTHING)],
    ['ALTER CUBE [Sales] UPDATE DIMENSION [a], DEFAULT_MEMBER=[a].[b]', NAMED],
    ['REFRESH CUBE [Sales]', REFRESH],
    ['refresh  Cube Sales', REFRESH],
    [' ; REFRESH CUBE [a] ; ; ', REFRESH],
    ['REFRESH CUBE [a]; REFRESH CUBE [b]', several(REFRESH)],
    ['REFRESH CUBE [a]; COMMIT', several(EVERYTHING)],
    ['UPDATE CUBE [a] SET x = 1; UPDATE CUBE [b] SET x = 1', several(NAMED)],
    ['SELECT FROM [a]; UPDATE CUBE [a] SET x = 1', several(NAMED)],
    ['{ "refresh": { "type": "full" } }', COMMAND],
    ['{ "sequence": { "operations": [] } }', { ...COMMAND, undoneByFault: false }],
  ])('%j', (statement, change) => {
    expect(changeOf(statement)).toEqual(change);
  });

  test.each([
    'Process',
    'ClearCache',
    'Alter',
    'Create',
    'Delete',
    'MergePartitions',
    'DesignAggregations',
    'NotifyTableChange',
    'Restore',
    'Attach',
    'Detach',
    'Synchronize',
    'Load',
    'ImageLoad',
  ])('the command %s, which leaves nothing in its session', (name) => {
    expect(commandOf(`<${name} xmlns="${AS}"/>`)).toEqual(COMMAND);
  });

  test.each([
    'BeginTransaction',
    'CommitTransaction',
    'RollbackTransaction',
    'Insert',
    'Update',
    'UpdateCells',
    'statement',
    'Whatever',
  ])('the command %s, which may leave something in its session', (name) => {
    expect(commandOf(`<${name} xmlns="${AS}"/>`)).toEqual(EVERYTHING);
  });

  test('an object of the session alone is nothing that a request is expected to make', () => {
    for (const name of ['Create', 'Alter', 'Delete']) {
      const request = commandsOf(`<${name} xmlns="${AS}" Scope="Session"/>`);
      expect(request.unexpected).toBe(`Scope of ${name}`);
      expect(changeBy(request)).toEqual(several(EVERYTHING));
      expect(commandsOf(`<${name} xmlns="${AS}" AllowCreate="true"/>`).unexpected).toBeUndefined();
    }
  });

  test('a Batch may hold anything', () => {
    expect(commandOf('<Batch><Statement>CREATE SET x AS {}</Statement></Batch>')).toEqual(
      several(EVERYTHING),
    );
  });
});

describe('what stands beside a change may leave anything in the session, and may be done before a Fault', () => {
  const CREATED = 'CREATE SESSION MEMBER [Sales].[Measures].[x] AS 1';
  test.each([
    [`REFRESH CUBE [Sales]; ${CREATED}`, several(REFRESH)],
    [`${CREATED}; REFRESH CUBE [Sales]`, several(REFRESH)],
    [`{ "refresh": {} }; ${CREATED}`, several(COMMAND)],
  ])('%j', (statement, change) => {
    expect(changeOf(statement)).toEqual(change);
  });

  test.each([
    `<ClearCache xmlns="${AS}"/><Statement>${CREATED}</Statement>`,
    `<Statement>${CREATED}</Statement><ClearCache xmlns="${AS}"/>`,
    `<ClearCache xmlns="${AS}"/><Cancel xmlns="${AS}"/>`,
    `<ClearCache xmlns="${AS}"/><Statement/>`,
    '<Statement>{ "refresh": {} }</Statement><Cancel/>',
    '<Statement>SELECT FROM [a]</Statement><Statement>COMMIT</Statement>',
  ])('%s', (commands) => {
    expect(commandOf(commands)).toEqual(several(EVERYTHING));
  });
});

describe('a text that engines read in different ways changes what any of them reads', () => {
  const FIRST = '-- a comment\r';
  test.each([
    [`${FIRST}UPDATE CUBE [a] SET x = 1`, several(NAMED)],
    ['-- a comment\r\nUPDATE CUBE [a] SET x = 1', NAMED],
    ['-- a\r/*\nCOMMIT -- */', several(EVERYTHING)],
    // Where the return is white space, it is not known what UP does.
    ['UP\rDATE CUBE [a] SET x = 1', EVERYTHING],
    [`${FIRST}REFRESH CUBE [a]`, several(REFRESH)],
    // Nothing for who ends the line there; the session sees what another reads.
    [`REFRESH CUBE [a] --\r; CREATE SESSION SET [b] AS {}`, several(REFRESH)],
    ['/* /* */ */ COMMIT', several(EVERYTHING)],
  ])('%j', (statement, change) => {
    expect(changeOf(statement)).toEqual(change);
  });

  test('as does one that is longer than what is searched', () => {
    const long = (length: number) => 'SELECT'.padEnd(length, ' x');
    expect(changeOf(long(1024 * 1024))).toBeUndefined();
    expect(changeOf(long(1024 * 1024 + 1))).toEqual(several(EVERYTHING));
  });

  test('but long comments change nothing, unless one is nested', () => {
    const long = `SELECT /* ${'x'.repeat(40_000)} */ FROM [a] /* x */* 2`;
    expect(changeOf(long)).toBeUndefined();
    expect(changeOf(`${long} /* /* */ */`)).toEqual(several(EVERYTHING));
  });

  test('of statements in any order and number, each that changes something is found', () => {
    const harmless = fc.constantFrom('', ' ', 'SELECT FROM [a]', '-- COMMIT\n', "'; COMMIT'");
    const changing = fc.constantFrom('COMMIT', 'commit\rtran', '/**/COMMIT', '-- x\rCOMMIT');
    fc.assert(
      fc.property(fc.array(harmless), changing, fc.array(harmless), (before, change, after) => {
        const text = [...before, change, ...after].join(';');
        expect(changeOf(text)).toMatchObject({ reach: 'everything', leavesState: true });
      }),
    );
  });
});

test('what was not read is told from what is known, for the log', () => {
  const whyOf = (statement: string) => passingChange(requestOf(execute({ statement })))?.why;
  expect(whyOf('UPDATE CUBE [Secret] SET x = 1')).toBe('statement update cube');
  expect(whyOf("[Secret].x = 'y'")).toBe('statement');
  expect(whyOf(`x${'y'.repeat(1_000)}`)).toBe('statement');
  expect(passingChange(commandsOf(`<Process xmlns="${AS}"/>`))?.why).toBe('command process');
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
    "SELECT '; COMMIT' ON 0 FROM [b]",
    "SELECT [into] ON 0 FROM [b] -- INTO\n WHERE 'into'",
    'EXPLAIN PLAN FOR SELECT FROM [a]',
    "EVALUATE 'Sales'",
    "DEFINE MEASURE 'a'[b] = 1 EVALUATE 'a'",
    'CREATE HIDDEN DYNAMIC SET [Sales].[x] AS {}',
    'DROP SUBCUBE [Sales]',
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

describe('what changes cubes and models for all is a change of everything', () => {
  test.each([
    'CALL ASSP.ClearAllCaches()',
    'INSERT INTO [Model] (a) SELECT 1',
    'DELETE FROM [Model]',
    "IMPORT FROM 'c:/model.dmb'",
    'CREATE CUBE [Sales] FROM [x]',
    'CREATE GLOBAL CUBE [Sales] FROM [x]',
    'DROP CUBE [Sales]',
    "CREATE DIMENSION MEMBER [Sales].[Store].[x], KEY='1'",
    'DROP DIMENSION MEMBER [Sales].[Store].[x]',
    'CREATE MINING MODEL [M] ([k] LONG KEY) USING [x]',
    'DROP MINING STRUCTURE [M]',
    "EXPORT MINING MODEL [M] TO 'c:/model.abf'",
    'RENAME MINING MODEL [A] TO [B]',
    'SELECT * INTO [x] FROM [y]',
    "SELECT FROM [M] PREDICTION JOIN OpenQuery([d], 'DELETE FROM t') AS t",
    'WITH MEMBER [a] AS 1 SELECT FROM [b]; SELECT * into [x] FROM [y]',
  ])('%s', (statement) => {
    expect(changeOf(statement)).toMatchObject({ reach: 'everything', leavesState: true });
  });

  test('but not what a session makes for itself', () => {
    expect(changeOf('CREATE SESSION CUBE [Sales_XL_GROUPING1] FROM [Sales] (…)')).toBeUndefined();
    expect(changeOf('DROP MEMBER [Sales].[Measures].[x]')).toBeUndefined();
  });
});

describe('what is not known to change nothing is a change of everything', () => {
  test.each([
    'EXECUTE AS USER = x',
    '(CALL x())',
    'TRUNCATE TABLE x',
    '\ufeffUPDATE CUBE x',
    '\u00a0SELECT FROM [a]',
    '[{ "refresh": {} }]',
    'REFRESH',
    'x',
  ])('%j', (statement) => {
    expect(changeOf(statement)).toEqual(EVERYTHING);
  });

  test.each(['SELECT * \u0131nto [m]', 'SELECT * INTO [m]'])(
    'a SELECT that reaches beyond, in other letters: %j',
    (statement) => {
      expect(changeOf(statement)).toEqual(EVERYTHING);
      expect(leavesState(requestOf(execute({ statement })))).toBe(true);
    },
  );

  test('a Cancel of another kind', () => {
    expect(commandOf('<y:Cancel xmlns:y="urn:y"/>')).toMatchObject({ reach: 'everything' });
    expect(leavesState(commandsOf('<y:Cancel xmlns:y="urn:y"/>'))).toBe(true);
    expect(commandOf(`<Cancel xmlns="${AS}"/>`)).toBeUndefined();
  });

  const harmless = execute({ statement: 'SELECT FROM [a]' }).toString();
  test.each([
    [
      'in a header block',
      '<SOAP-ENV:Body>',
      '<SOAP-ENV:Header><x xmlns="">',
      '</x></SOAP-ENV:Header>$&',
    ],
    ['among the properties', '<PropertyList>', '', '$&'],
  ])('a second statement %s, where an engine may look for it', (_where, from, before, behind) => {
    for (const hidden of ['<Statement>DROP x</Statement>', '<Command/>', '<Execute/>', '<Body/>']) {
      const request = requestOf(Buffer.from(harmless.replace(from, `${before}${hidden}${behind}`)));
      expect(passingChange(request)).toMatchObject({ reach: 'everything' });
    }
    const other = requestOf(Buffer.from(harmless.replace(from, `${before}<Other/>${behind}`)));
    expect(passingChange(other)).toBeUndefined();
  });

  test.each([
    ['a second Command', '</Command>', `</Command><Command><Process xmlns="${AS}"/></Command>`],
    ['an element in a Statement', 'SELECT FROM [a]', '<x>COMMIT</x>'],
    ['a text beside the Statement', '<Statement>', 'COMMIT<Statement>'],
    ['an attribute', '<Command>', '<Command x="y">'],
    ['a comment', 'SELECT', 'SELECT<!-- x -->'],
  ])('an Execute with %s, some of which may be done before a Fault', (_what, from, to) => {
    const request = requestOf(Buffer.from(harmless.replace(from, to)));
    expect(request.unexpected).toBeDefined();
    expect(changeBy(request)).toEqual(several(EVERYTHING));
  });

  test('but not a Discover, which no engine executes', () => {
    const body = discover({ requestType: 'MDSCHEMA_CUBES' }).toString();
    const more = body.replace('</Discover>', '<Command/></Discover>');
    const request = requestOf(Buffer.from(more));
    expect(request.unexpected).toBeDefined();
    expect(passingChange(request)).toBeUndefined();
  });
});

test('what may be cached changes nothing and leaves nothing behind, whatever it consists of', () => {
  const piece = fc.constantFrom(
    ...[
      'SELECT',
      'WITH',
      'UPDATE CUBE',
      'REFRESH CUBE',
      'COMMIT',
      'CALL',
      '{',
      '"sequence"',
      '[Sales]',
    ],
    ...[' ', '\n', '\r', '\r\n', ';', '--', '//', '/*', '*/', "'", '"', '[', ']', '{', 'x', 'FROM'],
  );
  let cacheable = 0;
  const statements = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(' '));
  fc.assert(
    fc.property(fc.constantFrom('', 'SELECT ', 'WITH '), statements, (begin, rest) => {
      const request = requestOf(execute({ statement: begin + rest }));
      if (classify(request, ENGINE_KINDS.generic) !== undefined) return true;
      cacheable += 1;
      return passingChange(request) === undefined && !leavesState(request);
    }),
    { numRuns: 20 * sizes.propertyRuns },
  );
  expect(cacheable).toBeGreaterThan(sizes.propertyRuns);
});
