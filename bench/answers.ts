import { response } from '../test/support/answers.ts';

/** The content types of the engine's answers. */
export const ANSWER_TYPE = 'text/xml;charset=UTF-8';

const OLAP_INFO =
  '<OlapInfo><CubeInfo><Cube><CubeName>Sales</CubeName></Cube></CubeInfo><AxesInfo><AxisInfo name="Axis0"><HierarchyInfo name="[Customer]"><UName name="[Customer].[MEMBER_UNIQUE_NAME]" type="xsd:string"/></HierarchyInfo></AxisInfo></AxesInfo><CellInfo><Value name="VALUE"/><FmtValue name="FORMATTED_VALUE" type="xsd:string"/></CellInfo></OlapInfo>';
const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
/** Stands where a session element may be put. */
const GAP = '<!--session-->';

/** An answer in two parts, between which the element of a session may stand. */
export interface AnswerParts {
  readonly before: Buffer;
  readonly after: Buffer;
}

/**
 * A dataset of Mondrian's shape: half of it tuples, half of it cells, its length exactly `size` bytes where that is
 * not less than an empty one needs.
 * @param name stands in it, so that answers to different questions differ
 */
export function datasetOf(size: number, name = 'A'): AnswerParts {
  const tuples: string[] = [];
  const cells: string[] = [];
  const frame = (padding: number) =>
    response(
      'Execute',
      'mddataset',
      `${OLAP_INFO}<Axes><Axis name="Axis0"><Tuples>${tuples.join('')}</Tuples></Axis></Axes><CellData>${cells.join('')}` +
        `<Cell CellOrdinal="999999"><Value xsi:type="xsd:double">1</Value><FmtValue>${name}${'0'.repeat(padding)}</FmtValue></Cell></CellData>`,
      { header: GAP },
    );
  const empty = frame(0).length - GAP.length;
  let room = size - empty;
  for (let at = 0; room > 0; at++) {
    const list = at % 2 === 0 ? tuples : cells;
    const item = at % 2 === 0 ? tuple(at) : cell(at);
    if (item.length > room) break;
    list.push(item);
    room -= item.length;
  }
  return split(frame(Math.max(0, room)));
}

/** A rowset of so many bytes, about. */
export function rowsetOf(size: number, name: string): AnswerParts {
  const rows: string[] = [];
  for (let length = 0, at = 0; at === 0 || length < size; at++) {
    const row = `<row><CATALOG_NAME>FoodMart</CATALOG_NAME><CUBE_NAME>${name}</CUBE_NAME><MEASURE_NAME>Measure ${at}</MEASURE_NAME><DESCRIPTION>Row ${at} of what was asked</DESCRIPTION></row>\n`;
    rows.push(row);
    length += row.length;
  }
  return split(response('Discover', 'rowset', rows.join(''), { header: GAP }));
}

/** What the engine answers to an empty statement. */
export function emptyAnswer(): AnswerParts {
  return split(response('Execute', 'empty', '', { header: GAP }));
}

/** The whole answer, with the element of a session as Mondrian writes it. */
export function wholeAnswer({ before, after }: AnswerParts, session?: string): Buffer {
  if (session === undefined) return Buffer.concat([before, after]);
  const element = Buffer.from(`<Session xmlns="${XMLA}" SessionId="${session}"/>`);
  return Buffer.concat([before, element, after]);
}

function split(text: string): AnswerParts {
  const at = text.indexOf(GAP);
  return {
    before: Buffer.from(text.slice(0, at)),
    after: Buffer.from(text.slice(at + GAP.length)),
  };
}

function tuple(at: number): string {
  const name = `Member ${at}`;
  return `<Tuple><Member Hierarchy="[Customer]"><UName>[Customer].[All].[${name}]</UName><Caption>${name}</Caption><LName>[Customer].[Name]</LName><LNum>1</LNum><DisplayInfo>131072</DisplayInfo></Member></Tuple>`;
}

function cell(at: number): string {
  return `<Cell CellOrdinal="${at}"><Value xsi:type="xsd:double">${at * 3.25}</Value><FmtValue>${at}.25</FmtValue><FormatString>Standard</FormatString></Cell>`;
}
