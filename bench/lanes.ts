const LANES = 8;

/** Does the work for each number from 0 on, a few at a time. */
export async function inLanes(
  count: number,
  work: (number: number) => Promise<void>,
): Promise<void> {
  await Promise.all(
    Array.from({ length: LANES }, async (_, lane) => {
      for (let at = lane; at < count; at += LANES) await work(at);
    }),
  );
}
