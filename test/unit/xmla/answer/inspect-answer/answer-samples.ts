import {
  brokenOffAnswer,
  encodeAnswer,
  errorCellAnswer,
  faultAnswer,
  kylinErrorAnswer,
  mddatasetAnswer,
  rowsetAnswer,
  sessionAnswer,
} from '../../../../support/answers.ts';

export interface Sample {
  readonly name: string;
  readonly method: 'Discover' | 'Execute';
  readonly bytes: Buffer;
}

const withMark = (mark: readonly number[], bytes: Buffer): Buffer =>
  Buffer.concat([Buffer.from(mark), bytes]);

/** Values spelt in every way that XML knows. */
const SPELT = mddatasetAnswer({
  cell: (ordinal) =>
    `<!-- c --><Value xsi:type='xsd:string' >a&#x20;&lt;b&gt;<![CDATA[ ]] > <x> ]]>é😀</Value ><FmtValue/>` +
    `<?pi data?><x:FormatString xmlns:x="urn:x" x:a = "1" b="&quot;&#10;">${ordinal}</x:FormatString>`,
});

/** Tags that are the same in letters, and mean the same or not: prefixes are declared anew around them. */
const cellsOf = (...declarations: readonly string[]): string =>
  mddatasetAnswer({
    cells: declarations.length,
    cell: (ordinal) =>
      `<x ${declarations[ordinal]}>${'<Value z:type="string">1</Value><Value  z:type="string" >1</Value>'.repeat(3)}</x>`,
  });
const REPEATED = cellsOf('xmlns:z="urn:z"', 'xmlns:z="urn:y" xmlns="urn:x"', 'xmlns:z="urn:z"');
const RENAMED = cellsOf('xmlns:z="urn:z"', 'xmlns:z="http://www.w3.org/2001/XMLSchema-instance"');
const UNBOUND = cellsOf('xmlns:z="urn:z"', '');

const id = (header: string): string =>
  `<!-- <Session SessionId="1"/> --><x:Session\n xmlns:x = 'urn:schemas-microsoft-com:xml-analysis' ${header}></x:Session >`;

/** Good ones that name a session in their header. */
export const SESSIONS: readonly Sample[] = [
  { name: 'a session', method: 'Execute', bytes: Buffer.from(sessionAnswer()) },
  {
    name: 'a session of SSAS',
    method: 'Execute',
    bytes: Buffer.from(sessionAnswer({ style: 'ssas' })),
  },
  {
    name: 'a session in every spelling',
    method: 'Execute',
    bytes: withMark(
      [0xef, 0xbb, 0xbf],
      Buffer.from(
        mddatasetAnswer({ header: id("SOAP-ENV:mustUnderstand='1' SessionId='é&#x41;&amp;😀'") }),
      ),
    ),
  },
  {
    name: 'a session in ISO-8859-1',
    method: 'Execute',
    bytes: encodeAnswer(
      mddatasetAnswer({
        encoding: 'ISO-8859-1',
        header: id('SessionId="né1"').replace('-- <', '-- é <'),
      }),
      'iso-8859-1',
    ),
  },
  {
    name: 'a session in UTF-16LE',
    method: 'Execute',
    bytes: withMark(
      [0xff, 0xfe],
      encodeAnswer(
        mddatasetAnswer({ encoding: 'UTF-16', header: id('SessionId="😀"') }),
        'utf-16le',
      ),
    ),
  },
  {
    name: 'a session in UTF-16BE',
    method: 'Execute',
    bytes: withMark(
      [0xfe, 0xff],
      encodeAnswer(
        mddatasetAnswer({ encoding: 'UTF-16', header: id('SessionId="é"') }),
        'utf-16be',
      ),
    ),
  },
];

/** May be stored. */
export const GOOD: readonly Sample[] = [
  { name: 'a rowset', method: 'Discover', bytes: Buffer.from(rowsetAnswer()) },
  {
    name: 'a rowset of SSAS',
    method: 'Discover',
    bytes: Buffer.from(rowsetAnswer({ style: 'ssas' })),
  },
  { name: 'a dataset', method: 'Execute', bytes: Buffer.from(mddatasetAnswer()) },
  {
    name: 'a dataset of SSAS',
    method: 'Execute',
    bytes: Buffer.from(mddatasetAnswer({ style: 'ssas' })),
  },
  { name: 'every spelling', method: 'Execute', bytes: Buffer.from(SPELT) },
  { name: 'repeated tags', method: 'Execute', bytes: Buffer.from(REPEATED) },
  {
    name: 'a rowset in ISO-8859-1',
    method: 'Discover',
    bytes: encodeAnswer(rowsetAnswer({ encoding: 'ISO-8859-1' }), 'iso-8859-1'),
  },
  {
    name: 'a rowset in UTF-16LE',
    method: 'Discover',
    bytes: withMark([0xff, 0xfe], encodeAnswer(rowsetAnswer({ encoding: 'UTF-16' }), 'utf-16le')),
  },
  {
    name: 'a rowset in UTF-16BE',
    method: 'Discover',
    bytes: withMark([0xfe, 0xff], encodeAnswer(rowsetAnswer({ encoding: 'UTF-16' }), 'utf-16be')),
  },
  {
    name: 'a rowset with a mark',
    method: 'Discover',
    bytes: withMark([0xef, 0xbb, 0xbf], Buffer.from(rowsetAnswer())),
  },
  ...SESSIONS,
];

/** May not. */
export const BAD: readonly Sample[] = [
  faultAnswer(),
  brokenOffAnswer(),
  errorCellAnswer(),
  kylinErrorAnswer(),
  RENAMED,
  UNBOUND,
].map((text, index) => ({ name: `bad ${index}`, method: 'Execute', bytes: Buffer.from(text) }));
