/** What a worker asks the primary process for a query that waits (ms). It is on the same machine and does little else. */
export const READ_DEADLINE = 250;
/** What changes something there (ms). */
export const WRITE_DEADLINE = 500;
