import type { XmlSink } from '../../xml/xml-scanner.ts';
import { foldName } from '../names.ts';
import { VALUES_NOT_KEYED } from '../request/property-policy.ts';
import { Refused } from './answer-reader.ts';

const ROW = 6;
const COLUMN = 7;
/** Columns of DISCOVER_PROPERTIES (XMLA 1.1) but the value, which any other may hold. */
const WITHOUT_VALUE: ReadonlySet<string> = new Set([
  'PropertyName',
  'PropertyDescription',
  'PropertyType',
  'PropertyAccessType',
  'IsRequired',
]);
/** Characters; no name of a property is longer. */
const LONGEST_NAME = 256;

/**
 * Refuses rows of properties that were not asked for, and values of ignored ones: an engine may
 * not understand the restriction, or make a value for each request. A row that was not asked for
 * and comes with some values only is not seen.
 * @param sink refuses any other shape before
 * @param asked folded
 */
export function withPropertyRows(sink: XmlSink, asked: ReadonlySet<string>): XmlSink {
  let depth = 0;
  let inRow = false;
  let column = '';
  let names = 0;
  let name = '';
  let hasValue = false;

  function mayBeKept(): boolean {
    const folded = foldName(name.trim());
    return names === 1 && asked.has(folded) && !(hasValue && VALUES_NOT_KEYED.has(folded));
  }

  return {
    ...sink,
    open(tag) {
      sink.open(tag);
      depth += 1;
      if (depth === ROW) {
        inRow = tag.local === 'row';
        [names, name, hasValue] = [0, '', false];
      } else if (inRow) {
        column = tag.local;
        if (column === 'PropertyName') names += 1;
        if (depth > COLUMN) hasValue = true;
      }
    },
    text(bytes, from, to, escaped, closes) {
      sink.text?.(bytes, from, to, escaped, closes);
      if (!inRow || depth !== COLUMN) return;
      if (column !== 'PropertyName') hasValue ||= !WITHOUT_VALUE.has(column);
      else if (name.length <= LONGEST_NAME) name += bytes.toString('utf8', from, to);
    },
    close(start, end) {
      sink.close?.(start, end);
      if (depth === ROW && inRow) {
        inRow = false;
        if (!mayBeKept()) throw new Refused('answer-shape');
      }
      depth -= 1;
    },
  };
}
