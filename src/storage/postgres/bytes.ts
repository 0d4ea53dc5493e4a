/** A text as it is kept. */
export function bytes(text: string): Buffer {
  return Buffer.from(text, 'utf8');
}

/** A number as PostgreSQL hands out its `bigint`. */
export type BigintText = string;
