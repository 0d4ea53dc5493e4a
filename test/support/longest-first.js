/**
 * The order of the suites, so that no long one is alone at the end: first those that run as a sample of something long,
 * then those that start whole gateways; among them the larger files. Jest asks for a default export with these methods.
 */
import { statSync } from 'node:fs';

const ORDER = [/\.sized\.test\.ts$|\/chaos\//, /\/e2e\//, /./];
const rankOf = ({ path }) => ORDER.findIndex((pattern) => pattern.test(path));

// oxlint-disable-next-line import/no-default-export -- jest takes the default export
export default class LongestFirst {
  sort(tests) {
    const sizes = new Map(tests.map(({ path }) => [path, statSync(path).size]));
    return tests.toSorted((a, b) => rankOf(a) - rankOf(b) || sizes.get(b.path) - sizes.get(a.path));
  }
  shard(tests) {
    return tests;
  }
  allFailedTests(tests) {
    return tests;
  }
  cacheResults() {}
}
