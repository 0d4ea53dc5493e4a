const SUITES = '<rootDir>/test/**/*.test.ts';
/** The suites of each group, see "Tests" in docs/ARCHITECTURE.md. */
const GROUPS = {
  // Suites wait for servers and leases for a third of their time: four keep two cores busy.
  small: { testMatch: [SUITES, '!**/test/chaos/**'], testTimeout: 120_000, maxWorkers: 4 },
  chaos: {
    // Three take three quarters of two cores, so that what is disturbed on purpose has time left.
    maxWorkers: 3,
    testMatch: ['<rootDir>/test/chaos/**/*.test.ts', '<rootDir>/test/**/*.sized.test.ts'],
    testTimeout: 120_000,
  },
  full: { testMatch: [SUITES], testTimeout: 600_000, maxWorkers: 2 },
};
const group = GROUPS[process.env.TEST_SIZE ?? 'small'];
if (group === undefined) {
  throw new Error(`TEST_SIZE is one of ${Object.keys(GROUPS).join(', ')}, or not set for small`);
}

/** @type {import('jest').Config} */
export default {
  ...group,
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: {},
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  testSequencer: '<rootDir>/test/support/longest-first.js',
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/.cache/'],
  // A worker keeps memory of every suite that it ran, and each full collection goes through all of it.
  workerIdleMemoryLimit: '400MB',
};
