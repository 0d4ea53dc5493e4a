/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: {},
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/.cache/'],
  testTimeout: process.env.TEST_SIZE === 'full' ? 600_000 : 120_000,
  // One suite at a time would leave a core idle; more than two fight over it.
  maxWorkers: 2,
};
