import type { BigintText } from './bytes.ts';
import type { Session } from './session.ts';

/** Bytes. What is copied and decoded for one of them in one go keeps no other request waiting. */
const PIECE = 1024 * 1024;

/** Where a document is kept. */
export interface StoredDocument {
  readonly document: BigintText;
  /** How many bytes it has. */
  readonly octets: BigintText;
}

/** Keeps a document that belongs to nothing yet, and holds nobody else up while it is sent. */
export async function putDocument(session: Session, document: Buffer): Promise<BigintText> {
  const [row] = await session.rows<{ id: BigintText }>(
    `SELECT nextval('mdx_gateway_documents') AS id`,
  );
  if (row === undefined) throw new Error('The sequence mdx_gateway_documents gave no number.');
  for (let from = 0; from < document.length; from += PIECE) {
    const piece = document.subarray(from, from + PIECE);
    await session.carry('INSERT INTO mdx_gateway_pieces VALUES ($1, $2, $3)', [
      row.id,
      from / PIECE,
      piece,
    ]);
  }
  return row.id;
}

/** @param session sees one moment */
export async function getDocument(
  session: Session,
  { document, octets }: StoredDocument,
): Promise<Buffer> {
  const whole = Buffer.allocUnsafe(Number(octets));
  for (let from = 0; from < whole.length; from += PIECE) {
    // The result comes as hexadecimal text: pg reads binary results as if they were text.
    const [piece] = await session.carry<{ bytes: Buffer }>(
      'SELECT bytes FROM mdx_gateway_pieces WHERE document = $1 AND number = $2',
      [document, from / PIECE],
    );
    if (piece?.bytes.length !== Math.min(PIECE, whole.length - from)) {
      throw new Error(`Document ${document} is damaged at byte ${from}.`);
    }
    piece.bytes.copy(whole, from);
  }
  return whole;
}

export async function dropDocument(session: Session, document: BigintText): Promise<void> {
  await session.rows('DELETE FROM mdx_gateway_pieces WHERE document = $1', [document]);
}
