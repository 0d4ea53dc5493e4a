/** @returns what does one work after the other, in the order of the calls. One that fails keeps none of the next from its turn. */
export function oneAfterTheOther(): <T>(work: () => Promise<T> | T) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const own = last.then(work);
    last = own.catch(() => undefined);
    return own;
  };
}
