interface Sizes {
  /** Mutated envelopes that are read both by the gateway and by libxml2. */
  readonly fuzzedEnvelopes: number;
  /** Mutated answers whose inspection is compared with libxml2. */
  readonly fuzzedAnswers: number;
  /** Runs of one property test. */
  readonly propertyRuns: number;
}

const SMALL: Sizes = {
  fuzzedEnvelopes: 2_000,
  fuzzedAnswers: 2_000,
  propertyRuns: 200,
};

const FULL: Sizes = {
  fuzzedEnvelopes: 10_000,
  fuzzedAnswers: 10_000,
  propertyRuns: 5_000,
};

/** How much work the tests do: little by default, more with TEST_SIZE=full. All such numbers stand here. */
export const sizes: Sizes = process.env['TEST_SIZE'] === 'full' ? FULL : SMALL;
