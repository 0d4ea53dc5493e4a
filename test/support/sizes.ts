interface Sizes {
  /** Answers that are held against what the engine sent. */
  readonly wholeAnswers: number;
  /** Mutated envelopes that are read both by the gateway and by libxml2. */
  readonly fuzzedEnvelopes: number;
  /** Mutated bodies of which those that are recognised are held against the full reading. */
  readonly recognisedMutations: number;
  /** Every how manieth pair of a fill and a purge is tried in all orders. */
  readonly pairStride: number;
  /** Every how manieth hostile body is read under a count of its steps. */
  readonly hostileStride: number;
  /** Mutated answers whose inspection is compared with libxml2. */
  readonly fuzzedAnswers: number;
  /** Requests that the statistics count. */
  readonly countedRequests: number;
  /** How far apart the places are at which a sample answer is cut off. */
  readonly cutStep: number;
  /** Runs of one property test. */
  readonly propertyRuns: number;
  /** Every how manieth letter is folded where many are alike. */
  readonly letterStride: number;
  /** Sequences of random operations on a storage, each on an empty one. */
  readonly storageRuns: number;
  /** Bytes of the large document of the storage contract. */
  readonly largeDocument: number;
  /** Members of the large role of the storage contract. */
  readonly roleMembers: number;
  /** Roles, and datasets, in the long dump of the storage contract. */
  readonly dumpedRoles: number;
  /** How often a document is replaced while it is read. */
  readonly replacements: number;
  /** How often a process is killed while it writes to a storage. */
  readonly storageKills: number;
  /** Processes that open one empty storage at one time. */
  readonly storageProcesses: number;
  /** Bytes of a document that must not stall the event loop. */
  readonly stalledDocument: number;
  /** Sequences of random requests to the API, each on an empty storage. */
  readonly apiRuns: number;
  /** Writes that PostgreSQL has acknowledged when it, or its client, is killed. */
  readonly writesUntilKill: number;
  /** How often eight gateways start at one time on an empty database. */
  readonly startRounds: number;
  /** How many do so in processes of their own. */
  readonly startProcesses: number;
  /** What operations on a PostgreSQL that is away may take (ms). */
  readonly outageTimeout: number;
  /** Bytes of the documents under which PostgreSQL is loaded, and what its operations may take then (ms). */
  readonly loadedDocument: number;
  readonly loadedTimeout: number;
  /** Whether each outage is also tried before there was a connection. */
  readonly outagesFromTheStart: boolean;
  /** Questions of the matrix of identities and sessions, and every how manieth of its cells is tried. */
  readonly matrixQuestions: number;
  readonly matrixStride: number;
  /** Every how manieth order of two statements in one session is tried without waiting. */
  readonly raceStride: number;
  /** Users of the synthetic Excel sessions, and workbooks of each. */
  readonly excelUsers: number;
  readonly excelWorkbooks: number;
  /** Users who come in the morning after a purge. */
  readonly morningUsers: number;
  /** Queries of a warm-up beside which a user asks. */
  readonly morningQueries: number;
  /** Sessions of random names that are kept alive, each by a request over HTTP. */
  readonly touches: number;
  /** Every how manieth recorded request is asked of the live engine, and by each third-party client. */
  readonly mondrianStride: number;
  readonly clientStride: number;
  /** Pairs of random requests of which those that share an entry are compared, for each kind of engine. */
  readonly keyedPairs: number;
  /** Requests to an engine that answers by presence and value of properties and by names in all spellings. */
  readonly particularRequests: number;
  /** Answers about properties, of engines that answer by all that reaches them. */
  readonly toldProperties: number;
  /** How often data changes that is watched, without a word to the gateways. */
  readonly unannouncedLoads: number;
  /** Gateways that are asked for the same slow query, and requests to each. */
  readonly flightGateways: number;
  readonly flightClients: number;
  /**
   * Runs of the oracle: on one Redis, with several servers of Redis, with workers whose links are disturbed, with workers
   * as they are started by an operator, and until it has to have found a fault.
   */
  readonly oracle: {
    readonly alone: OracleGoals;
    readonly watched: OracleGoals;
    readonly workers: OracleGoals;
    readonly served: OracleGoals;
    readonly mutant: OracleGoals;
    /** Hits for each purge that only a warm-up had asked the engine for. */
    readonly warmHits: number;
    /** Every how manieth disturbance of each list happens, from one that is drawn, and whether the watcher is tried at the end. */
    readonly disturbanceStride: number;
    readonly triesWatcher: boolean;
    /** Of one run (ms). */
    readonly deadline: number;
  };
  /** What is judged in simulated time, and requests in sessions over a real Redis. */
  readonly simulated: {
    readonly fleet: number;
    readonly lookUps: number;
    readonly requests: number;
    readonly roles: number;
    readonly redis: number;
  };
  /** Clients that ask for a long answer at one time, and its bytes. */
  readonly crowd: number;
  readonly crowdAnswer: number;
  /** How many of them are slow; fewer than may be at the engine. */
  readonly crowdSlow: number;
  /** Limits of the gateway that they ask, and the resident memory that it may take then (MiB). */
  readonly crowdMemory: number;
  readonly crowdInFlight: number;
  readonly crowdCeiling: number;
  /** Different short answers that a gateway in a small container is asked for. */
  readonly containerMisses: number;
  /** Bytes of an answer that lies compressed, and clients that get it at one time. */
  readonly largeAnswer: number;
  readonly largeClients: number;
  /** Long values that go through a Redis, and as many that are spoilt there. */
  readonly longValues: number;
  /** Entries in Redis that a sweep drops, and as many that it leaves. */
  readonly sweptEntries: number;
  /** Requests to two versions of the gateway that share a Redis. */
  readonly upgradeRequests: number;
  /** Entries that lie in Redis when a project is purged, and how often that is done. */
  readonly purgedEntries: number;
  readonly purgeRounds: number;
  /** Requests of each kind in each phase of a hanging Redis, and whether their times are held against calm ones. */
  readonly hangRequests: number;
  readonly hangTimes: boolean;
  /** Users who work while Redis is away, for how long it is (ms), and how long each thinks (ms). */
  readonly awayUsers: number;
  readonly awayTime: number;
  readonly awayThinking: number;
  /** Every how manieth pair of a kind of engine and an outage is tried. */
  readonly awayStride: number;
  /** How many kinds of keys, at most, Redis evicts around a purge. */
  readonly evictedKinds: number;
  /** How long each attack lasts (ms), and connections with unfinished heads in it. */
  readonly attacked: number;
  /** How long after one it is looked at what memory it has left behind (ms); 0: not at all. */
  readonly afterAttack: number;
  /** Whether the user has asked for a while before each attack. */
  readonly attackedWarm: boolean;
  readonly unfinishedHeads: number;
  /** Connections that ask for one long answer, and those that ask for one that lies in Redis alone. */
  readonly longAskers: number;
  readonly redisAskers: number;
  /** Sessions that an attacker begins at least: more than the table holds, or fewer. */
  readonly attackersSessions: number;
  /** Sequences of the oracle for people who were locked out. */
  readonly lockedOutRuns: number;
  /** How long the demo is asked, at least, before the panels of the dashboard are (ms). */
  readonly dashboardTraffic: number;
  /** How long the engine needs for a slow query behind a proxy (ms), nearly as long as it may; 0: until it is told. */
  readonly slowQuery: number;
}

interface OracleGoals {
  readonly requests: number;
  readonly purges: number;
  /** How often each disturbance happens. */
  readonly disturbances: number;
}

const SMALL: Sizes = {
  wholeAnswers: 400,
  pairStride: 4,
  hostileStride: 9,
  fuzzedEnvelopes: 300,
  recognisedMutations: 3_000,
  fuzzedAnswers: 1_000,
  countedRequests: 200_000,
  cutStep: 101,
  propertyRuns: 40,
  letterStride: 7,
  storageRuns: 2,
  largeDocument: 3_000_000,
  roleMembers: 500,
  dumpedRoles: 100,
  replacements: 3,
  storageKills: 2,
  storageProcesses: 4,
  stalledDocument: 32 * 1024 * 1024,
  apiRuns: 2,
  writesUntilKill: 40,
  startRounds: 1,
  startProcesses: 2,
  outageTimeout: 1_000,
  loadedDocument: 256 * 1024,
  loadedTimeout: 60_000,
  outagesFromTheStart: false,
  matrixQuestions: 3,
  matrixStride: 3,
  raceStride: 2,
  excelUsers: 2,
  excelWorkbooks: 1,
  morningUsers: 5,
  morningQueries: 60,
  touches: 20,
  keyedPairs: 24,
  particularRequests: 1_000,
  toldProperties: 2_000,
  unannouncedLoads: 6,
  flightGateways: 2,
  flightClients: 25,
  oracle: {
    alone: { requests: 1_000, purges: 10, disturbances: 1 },
    watched: { requests: 3_000, purges: 30, disturbances: 1 },
    workers: { requests: 2_000, purges: 20, disturbances: 1 },
    served: { requests: 10_000, purges: 100, disturbances: 2 },
    mutant: { requests: 20_000, purges: 200, disturbances: 4 },
    warmHits: 0.05,
    disturbanceStride: 3,
    triesWatcher: false,
    deadline: 900_000,
  },
  simulated: { fleet: 15_000, lookUps: 20_000, requests: 5_000, roles: 20_000, redis: 2_500 },
  mondrianStride: 16,
  clientStride: 40,
  crowd: 20,
  crowdAnswer: 16_000_000,
  crowdSlow: 15,
  crowdMemory: 64,
  crowdInFlight: 48,
  crowdCeiling: 384,
  containerMisses: 500,
  largeAnswer: 1_500_000,
  largeClients: 8,
  longValues: 10,
  sweptEntries: 200,
  upgradeRequests: 300,
  purgedEntries: 2_000,
  purgeRounds: 1,
  hangRequests: 300,
  hangTimes: false,
  awayUsers: 3,
  awayTime: 0,
  awayThinking: 0,
  awayStride: 9,
  evictedKinds: 2,
  attacked: 500,
  afterAttack: 0,
  attackedWarm: false,
  unfinishedHeads: 8_000,
  longAskers: 60,
  redisAskers: 60,
  attackersSessions: 300,
  lockedOutRuns: 250,
  dashboardTraffic: 10_000,
  slowQuery: 0,
};

const CHAOS: Sizes = {
  wholeAnswers: 3_000,
  pairStride: 1,
  hostileStride: 1,
  fuzzedEnvelopes: 3_000,
  recognisedMutations: 50_000,
  fuzzedAnswers: 3_000,
  countedRequests: 400_000,
  cutStep: 17,
  propertyRuns: 200,
  letterStride: 1,
  storageRuns: 6,
  largeDocument: 3_000_000,
  roleMembers: 500,
  dumpedRoles: 300,
  replacements: 10,
  storageKills: 2,
  storageProcesses: 4,
  stalledDocument: 32 * 1024 * 1024,
  apiRuns: 4,
  writesUntilKill: 80,
  startRounds: 2,
  startProcesses: 2,
  outageTimeout: 1_000,
  loadedDocument: 2 * 1024 * 1024,
  loadedTimeout: 60_000,
  outagesFromTheStart: false,
  matrixQuestions: 3,
  matrixStride: 3,
  raceStride: 1,
  excelUsers: 2,
  excelWorkbooks: 1,
  morningUsers: 10,
  morningQueries: 200,
  touches: 40,
  keyedPairs: 300,
  particularRequests: 4_000,
  toldProperties: 10_000,
  unannouncedLoads: 30,
  flightGateways: 4,
  flightClients: 25,
  oracle: {
    alone: { requests: 20_000, purges: 200, disturbances: 2 },
    watched: { requests: 6_000, purges: 60, disturbances: 1 },
    workers: { requests: 10_000, purges: 100, disturbances: 1 },
    served: { requests: 10_000, purges: 100, disturbances: 2 },
    mutant: { requests: 20_000, purges: 200, disturbances: 4 },
    warmHits: 0.2,
    disturbanceStride: 1,
    triesWatcher: true,
    deadline: 900_000,
  },
  simulated: { fleet: 200_000, lookUps: 400_000, requests: 50_000, roles: 100_000, redis: 5_000 },
  mondrianStride: 1,
  clientStride: 6,
  crowd: 40,
  crowdAnswer: 16_000_000,
  crowdSlow: 30,
  crowdMemory: 64,
  crowdInFlight: 48,
  crowdCeiling: 384,
  containerMisses: 1_000,
  largeAnswer: 34_000_000,
  largeClients: 100,
  longValues: 40,
  sweptEntries: 700,
  upgradeRequests: 2_000,
  purgedEntries: 20_000,
  purgeRounds: 3,
  hangRequests: 300,
  hangTimes: false,
  awayUsers: 6,
  awayTime: 1_000,
  awayThinking: 20,
  awayStride: 4,
  evictedKinds: 100,
  attacked: 4_000,
  afterAttack: 0,
  attackedWarm: true,
  unfinishedHeads: 12_000,
  longAskers: 60,
  redisAskers: 1_000,
  attackersSessions: 1_000,
  lockedOutRuns: 3_000,
  dashboardTraffic: 10_000,
  slowQuery: 0,
};

const FULL: Sizes = {
  wholeAnswers: 20_000,
  pairStride: 1,
  hostileStride: 1,
  fuzzedEnvelopes: 10_000,
  recognisedMutations: 1_000_000,
  fuzzedAnswers: 100_000,
  countedRequests: 1_000_000,
  cutStep: 1,
  propertyRuns: 5_000,
  letterStride: 1,
  storageRuns: 300,
  largeDocument: 20_000_000,
  roleMembers: 20_000,
  dumpedRoles: 3_000,
  replacements: 10,
  storageKills: 20,
  storageProcesses: 8,
  stalledDocument: 256 * 1024 * 1024,
  apiRuns: 200,
  writesUntilKill: 500,
  startRounds: 40,
  startProcesses: 8,
  outageTimeout: 1_500,
  loadedDocument: 16 * 1024 * 1024,
  loadedTimeout: 5_000,
  outagesFromTheStart: true,
  matrixQuestions: 100,
  matrixStride: 1,
  raceStride: 1,
  excelUsers: 20,
  excelWorkbooks: 5,
  morningUsers: 50,
  morningQueries: 200,
  touches: 1_000,
  keyedPairs: 5_000,
  particularRequests: 200_000,
  toldProperties: 200_000,
  unannouncedLoads: 600,
  flightGateways: 10,
  flightClients: 100,
  oracle: {
    alone: { requests: 300_000, purges: 2_000, disturbances: 20 },
    watched: { requests: 40_000, purges: 300, disturbances: 8 },
    workers: { requests: 300_000, purges: 2_000, disturbances: 20 },
    served: { requests: 60_000, purges: 500, disturbances: 10 },
    mutant: { requests: 20_000, purges: 200, disturbances: 4 },
    warmHits: 0.2,
    disturbanceStride: 1,
    triesWatcher: true,
    deadline: 3_600_000,
  },
  simulated: {
    ...{ fleet: 2_000_000, lookUps: 4_000_000, requests: 400_000, roles: 1_000_000 },
    redis: 25_000,
  },
  mondrianStride: 1,
  clientStride: 1,
  crowd: 200,
  crowdAnswer: 50_000_000,
  crowdSlow: 48,
  crowdMemory: 256,
  crowdInFlight: 128,
  crowdCeiling: 768,
  containerMisses: 20_000,
  largeAnswer: 34_000_000,
  largeClients: 100,
  longValues: 1_000,
  sweptEntries: 20_000,
  upgradeRequests: 50_000,
  purgedEntries: 1_000_000,
  purgeRounds: 9,
  hangRequests: 4_000,
  hangTimes: true,
  awayUsers: 24,
  awayTime: 60_000,
  awayThinking: 200,
  awayStride: 1,
  evictedKinds: 100,
  attacked: 60_000,
  afterAttack: 60_000,
  attackedWarm: true,
  unfinishedHeads: 15_000,
  longAskers: 600,
  redisAskers: 3_000,
  attackersSessions: 110_000,
  lockedOutRuns: 50_000,
  dashboardTraffic: 600_000,
  slowQuery: 298_000,
};

type Size = 'small' | 'chaos' | 'full';
const size = (process.env['TEST_SIZE'] ?? 'small') as Size;

/**
 * How much work the tests do: `npm test` runs samples, the group chaos more, and TEST_SIZE=full most. All such numbers
 * stand here.
 */
export const sizes: Sizes = { small: SMALL, chaos: CHAOS, full: FULL }[size];

/** The first rows of a table of tests: a sample in `npm test`, and all of them otherwise. */
export function sampled<T>(rows: readonly T[], count = 1): readonly T[] {
  return size === 'small' ? rows.slice(0, count) : rows;
}

/** The first row, and every `stride`th behind it. */
export function strided<T>(rows: readonly T[], stride: number): readonly T[] {
  return rows.filter((_, at) => at % stride === 0);
}
