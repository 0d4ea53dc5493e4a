import { foldName } from '../fold-name.ts';
import type { TextEncoding } from '../../xml/text-encoding.ts';
import type { XmlElement } from '../../xml/read-tree.ts';

const PROPERTY = foldName('DbpropMsmdMDXCompatibility');

/**
 * Kylin changes the number formats of an answer when the text DbpropMsmdMDXCompatibility stands anywhere in
 * the body, as raw text. The name of an element is in the key, a comment, a prefix or an ignored value is
 * not: so the text may stand in the tags of elements of that name only, each tag counted. In UTF-16 the
 * engine may or may not see it.
 */
export function compatibilityTextMisplaced(
  text: string,
  encoding: TextEncoding,
  root: XmlElement,
): boolean {
  const occurrences = text.match(/DbpropMsmdMDXCompatibility/giu)?.length ?? 0;
  if (occurrences === 0) {
    return false;
  }
  return encoding !== 'utf-8' || occurrences !== countTags(root);
}

function countTags(element: XmlElement): number {
  const own = foldName(element.local) === PROPERTY ? (element.selfClosing ? 1 : 2) : 0;
  return element.children.reduce((sum, child) => sum + countTags(child), own);
}
