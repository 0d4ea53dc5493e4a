import { crc32 } from 'node:zlib';
import { mddatasetAnswer } from '../answers.ts';

/** A long answer that names its question, in pieces. */
export interface LargeAnswer {
  readonly length: number;
  /** CRC-32 of all of it. */
  readonly crc: number;
  pieces(): Generator<Buffer, void>;
}

/** Cells of which a long answer repeats the block. */
const BLOCK = 400;
const CELLS = '<CellData>';

/** What asks for an answer of so many bytes; it is at most one block longer, and at least one block long. */
export const questionFor = (bytes: number, name: string) => `${bytes} bytes for ${name}`;

/** @param question made by {@link questionFor} */
export function largeAnswer(question: string): LargeAnswer {
  const least = Number.parseInt(question, 10);
  const text = mddatasetAnswer({ cells: BLOCK, members: [question] });
  const from = text.indexOf(CELLS) + CELLS.length;
  const to = text.lastIndexOf('</CellData>');
  const head = Buffer.from(text.slice(0, from));
  const block = Buffer.from(text.slice(from, to));
  const tail = Buffer.from(text.slice(to));
  const blocks = Math.max(1, Math.ceil((least - head.length - tail.length) / block.length));

  function* pieces() {
    yield head;
    for (let sent = 0; sent < blocks; sent += 1) yield block;
    yield tail;
  }
  let crc = 0;
  for (const piece of pieces()) crc = crc32(piece, crc);
  return { length: head.length + blocks * block.length + tail.length, crc, pieces };
}

/** Statements that ask a question: one that may be cached, and two that are passed through, the last one watched. */
export const STATEMENTS = {
  cacheable: (question: string) => `SELECT FROM [${question}]`,
  passed: (question: string) => `CALL answer([${question}])`,
  watched: (question: string) => `REFRESH CUBE [${question}]`,
};
export const questionOf = (body: string) => /\[([^\]]+)\]/.exec(body)?.[1];
