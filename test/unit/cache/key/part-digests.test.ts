import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import type { KeyEpochs } from '../../../../src/freshness/freshness.ts';
import {
  createPartDigests,
  describeEpochs,
  describeParts,
  differingParts,
  partTexts,
  queryDigestOf,
} from '../../../../src/cache/key.ts';
import { sizes } from '../../../support/sizes.ts';
import { flatParts, type FlatParts, nested } from '../fakes.ts';
import { codePoint } from '../../../support/code-point.ts';
import { soapActionOf } from '../../../../src/xmla/names.ts';

const EPOCHS: KeyEpochs = { scopes: ['everything'], tokens: ['one'], keySecret: 'secret' };

const partDigests = createPartDigests();
const queryDigest = (parts: FlatParts) => nested(parts).asked.digest;
const digestsOf = (parts: FlatParts, epochs = EPOCHS) =>
  partDigests(epochs, partTexts(nested(parts), epochs), queryDigest(parts));

const { request } = flatParts();
const execute = flatParts({
  request: {
    ...request,
    method: 'Execute',
    commands: ['Statement'],
    statement: 'SELECT',
    parameters: [],
  },
  soapAction: soapActionOf('Execute'),
});

describe('the digests of the parts of a key', () => {
  test('tell exactly which texts differ', () => {
    const texts = fc.record({
      engine: fc.string(),
      project: fc.option(fc.string()),
      identity: fc.string(),
      accept: fc.option(fc.string()),
      session: fc.option(fc.string()),
    });
    fc.assert(
      fc.property(texts, texts, (a, b) => {
        const names = ['engine', 'project', 'identity', 'accept', 'session'] as const;
        expect(
          differingParts(digestsOf(flatParts(a), EPOCHS), digestsOf(flatParts(b), EPOCHS)),
        ).toEqual(names.filter((name) => a[name] !== b[name]));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('hold the digest of the query', () => {
    for (const parts of [
      flatParts(),
      execute,
      flatParts({ project: 'Käse', identity: 'user:bob' }),
    ]) {
      expect(queryDigestOf(digestsOf(parts))).toBe(queryDigest(parts));
    }
    expect(queryDigestOf('')).toBe('');
  });

  test('name a query by what they named it before: operators note it', () => {
    expect([flatParts(), execute].map(queryDigest)).toEqual([
      'PIlwCYJPZQELPZ--yHbVQx',
      'f9N3xDa4kTsaxGPGOkxY3q',
    ]);
  });

  test('are as short whatever was asked, and are one byte for each character', () => {
    fc.assert(
      fc.property(fc.string({ unit: codePoint }), (identity) => {
        const digests = digestsOf(flatParts({ identity }), EPOCHS);
        expect(Buffer.from(digests, 'latin1').toString('latin1')).toBe(digests);
        expect(digests).toHaveLength(158);
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('tell a Discover from an Execute by the parts that only one of them has', () => {
    expect(differingParts(digestsOf(flatParts(), EPOCHS), digestsOf(execute, EPOCHS))).toEqual([
      'statement',
      'request-type',
      'restrictions',
      'parameters',
    ]);
    expect(describeParts(digestsOf(execute, EPOCHS)).map(({ name }) => name)).toEqual([
      'engine',
      'project',
      'query',
      'identity',
      'user-agent',
      'accept',
      'content-type',
      'session',
      'headers',
      'statement',
      'parameters',
      'properties',
      'epochs',
    ]);
  });

  test('of equal values in two parts are two, so that nobody sees that they are equal', () => {
    const parts = flatParts({
      engine: 'x',
      project: 'x',
      identity: 'x',
      accept: 'x',
      session: 'x',
    });
    const digests = describeParts(digestsOf(parts, EPOCHS)).map(({ digest }) => digest);
    expect(new Set(digests).size).toBe(digests.length);
  });

  test('have nothing in common with those under another secret', () => {
    const other = { ...EPOCHS, keySecret: 'another' };
    expect(
      differingParts(digestsOf(flatParts(), EPOCHS), digestsOf(flatParts(), other)),
    ).toBeUndefined();
    const shown = (keySecret: string) =>
      describeEpochs({ scopes: ['everything'], tokens: ['one'], keySecret });
    expect(shown('secret')).not.toEqual(shown('another'));
  });
});
