/**
 * The order of the suites: those that run as a sample of something long come first, so that none of them is alone at the
 * end; among the others the larger files. Jest asks for a default export with these methods.
 */
import { statSync } from 'node:fs';

const isLong = ({ path }) => /\.sized\.test\.ts$|\/chaos\//.test(path);

// oxlint-disable-next-line import/no-default-export -- jest takes the default export
export default class LongestFirst {
  sort(tests) {
    const sizes = new Map(tests.map(({ path }) => [path, statSync(path).size]));
    return tests.toSorted((a, b) => isLong(b) - isLong(a) || sizes.get(b.path) - sizes.get(a.path));
  }
  shard(tests) {
    return tests;
  }
  allFailedTests(tests) {
    return tests;
  }
  cacheResults() {}
}
