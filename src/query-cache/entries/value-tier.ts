/**
 * Port: a tier outside this process that keeps bytes by key. Not found is `null`; a tier that cannot be
 * reached, or is slower than its deadline, rejects. Whoever made it closes it.
 */
export interface ValueTier {
  get(key: string): Promise<Buffer | null>;
  /**
   * Keeps the value for `lifetime` milliseconds, unless a value is there whose fill began later (bytes 8 to
   * 15 of both, compared as big-endian numbers; see entry-layout.ts). With `replace` it takes the place of any:
   * the clocks of two gateways differ, and somebody asked for this one.
   */
  set(
    key: string,
    value: Buffer,
    lifetime: number,
    options?: { readonly replace: boolean },
  ): Promise<void>;
  /** A part of a long value. Reading it never delays `get`. */
  getChunk(fill: string, index: number): Promise<Buffer | undefined>;
  /**
   * Keeps a part of a long value for `lifetime` milliseconds.
   * @param fill names the fill in base64url; no other one ever has that name
   */
  setChunk(fill: string, index: number, chunk: Buffer, lifetime: number): Promise<void>;
}
