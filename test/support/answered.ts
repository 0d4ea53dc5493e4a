import type { GatewayEvent, Outcome } from '../../src/common/events.ts';

export type Answered = Extract<GatewayEvent, { readonly type: 'xmla-answered' }>;

const HIT: Outcome = { kind: 'hit', detail: 'memory' };

/** The event of one request: a hit of the digest `d`, unless it is told otherwise. */
export const answered = (facts: Partial<Answered> = {}): Answered => ({
  type: 'xmla-answered',
  id: 'id',
  principal: 'alice',
  address: '10.0.0.7',
  program: '',
  project: 'Shop',
  catalogs: ['Sales'],
  cubes: ['Orders'],
  digest: 'd',
  subject: 'Execute',
  statement: 'SELECT',
  why: '',
  outcome: HIT,
  status: 200,
  bytes: 100,
  milliseconds: 1,
  engine: undefined,
  saved: 0,
  complete: true,
  trace: '',
  ...facts,
});

/** The engine was asked, and needed that long (ms). */
export const asked = (milliseconds: number, facts: Partial<Answered> = {}): Answered =>
  answered({
    outcome: { kind: 'miss', stored: true },
    engine: { waited: 5, first: milliseconds / 2, last: milliseconds },
    milliseconds: milliseconds + 6,
    ...facts,
  });
