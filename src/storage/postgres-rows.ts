import { Client } from 'pg';
import { clientSettings, type Server } from './postgres-settings.ts';

/** The rows of a watcher's query, as text (bytes); on the way they may take some more. */
const LONGEST_ROWS = 64 * 1024;
const TOO_LONG = 'its rows take more than 64KiB; have the query return fewer';

/**
 * All rows of one statement as JSON, each value as the server writes it, in an order of their own: on a connection of its own,
 * in a transaction that cannot write.
 * @param signal of this question alone
 * @throws Error also where the rows take more than 64 KiB, or the signal says so
 */
export async function readRows(server: Server, text: string, signal: AbortSignal) {
  const client = new Client(clientSettings(server));
  const { stream } = client.connection;
  let failure: unknown;
  const end = (why: unknown) => {
    failure ??= why;
    stream.destroy();
  };
  let size = 0;
  stream.on('data', (piece: Buffer) => {
    size += piece.length;
    if (size > 2 * LONGEST_ROWS) end(new Error(TOO_LONG));
  });
  client.on('error', () => {});
  signal.addEventListener('abort', () => end(signal.reason));
  try {
    await client.connect();
    await client.query('BEGIN READ ONLY');
    const types = { getTypeParser: () => (value: unknown) => value };
    // Not as a simple query, which may hold several statements, and so the end of the transaction.
    const query = { text, types, rowMode: 'array', queryMode: 'extended' } as const;
    const { rows } = await client.query<unknown[]>(query);
    const found = JSON.stringify(rows.map((row) => JSON.stringify(row)).sort());
    if (found.length > LONGEST_ROWS) throw new Error(TOO_LONG);
    return found;
  } catch (error) {
    throw failure ?? error;
  } finally {
    // Without a farewell: nothing was changed.
    stream.destroy();
  }
}
