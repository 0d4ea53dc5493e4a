/** All orders in which two sequences can happen side by side, each of them in its own order. */
export function interleavings<T>(
  one: readonly T[],
  other: readonly T[],
): readonly (readonly T[])[] {
  const found: (readonly T[])[] = [];
  const go = (done: readonly T[], left: readonly T[], right: readonly T[]): void => {
    if (left.length === 0 || right.length === 0) {
      found.push([...done, ...left, ...right]);
      return;
    }
    go([...done, ...left.slice(0, 1)], left.slice(1), right);
    go([...done, ...right.slice(0, 1)], left, right.slice(1));
  };
  go([], one, other);
  return found;
}
