/**
 * The order of the suites, so that the processors always have work and no long suite is alone at the end: first those
 * that run as a sample of something long. Those that start whole gateways wait most, and are spread among the others.
 * Larger files come earlier. Jest asks for a default export with these methods.
 */
import { statSync } from 'node:fs';

const LONG = /\.sized\.test\.ts$|\/chaos\//;
/** They take longest of all, whatever their size. */
const ORACLE = /\/purge-oracle/;
const WAITING = /\/e2e\//;
/** Those that wait are begun in this part of the whole. */
const WAITING_PART = 0.85;

// oxlint-disable-next-line import/no-default-export -- jest takes the default export
export default class LongestFirst {
  sort(tests) {
    const size = ({ path }) => (ORACLE.test(path) ? Infinity : statSync(path).size);
    const largestFirst = (some) =>
      some
        .map((test) => ({ test, size: size(test) }))
        .toSorted((a, b) => (a.size === b.size ? 0 : b.size - a.size))
        .map(({ test }) => test);
    const spread = (some, part) =>
      largestFirst(some).map((test, i) => ({ test, at: (part * i) / some.length }));
    const [long, short] = split(tests, LONG);
    const [waiting, busy] = split(short, WAITING);
    const mixed = [...spread(waiting, WAITING_PART), ...spread(busy, 1)];
    return [
      ...largestFirst(long),
      ...mixed.toSorted((a, b) => a.at - b.at).map(({ test }) => test),
    ];
  }
  shard(tests) {
    return tests;
  }
  allFailedTests(tests) {
    return tests;
  }
  cacheResults() {}
}

const split = (tests, pattern) => [
  tests.filter(({ path }) => pattern.test(path)),
  tests.filter(({ path }) => !pattern.test(path)),
];
