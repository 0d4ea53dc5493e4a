/** Values that nobody can change by mistake. */

function refuse(): never {
  throw new TypeError('the configuration cannot be changed');
}

/**
 * Freezes plain objects, lists and Maps, and all that they hold, in place. The methods of a Map that change it
 * throw a TypeError from then on.
 */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  if (value instanceof Map) {
    for (const method of ['set', 'delete', 'clear']) {
      Object.defineProperty(value, method, { value: refuse });
    }
    for (const item of value.values()) deepFreeze(item);
  }
  Object.freeze(value);
  for (const item of Object.values(value)) deepFreeze(item);
  return value;
}
