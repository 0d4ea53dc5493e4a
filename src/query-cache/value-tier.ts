/**
 * Port: a tier outside this process that keeps bytes by key. Not found is `undefined`; a tier that cannot be
 * reached, or is slower than its deadline, rejects. Whoever made it closes it.
 */
export interface ValueTier {
  get(key: string): Promise<Buffer | undefined>;
  /**
   * Keeps the value for `lifetime` milliseconds, unless a value is there whose fill began later (bytes 8 to
   * 15 of both, compared as big-endian numbers; see entry-codec.ts). With `replace` it takes the place of any:
   * the clocks of two gateways differ, and somebody asked for this one.
   */
  set(
    key: string,
    value: Buffer,
    lifetime: number,
    options?: { readonly replace: boolean },
  ): Promise<void>;
}
