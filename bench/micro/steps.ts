import { isDeepStrictEqual } from 'node:util';
import { randomBytes } from 'node:crypto';
import {
  createVerifiedCredentials,
  createVerifiedTable,
} from '../../src/auth/verified-credentials.ts';
import { systemClock } from '../../src/common/clock.ts';
import { ENGINE_KINDS } from '../../src/common/engine-kinds.ts';
import { decodeEntry, encodeEntry } from '../../src/cache/shared-entries.ts';
import { askedOf, queryKey, type KeyParts } from '../../src/cache/key.ts';
import { cutOut, keepText, type StoredAnswer, withSession } from '../../src/cache/stored-answer.ts';
import { createSealer, NO_SEALER } from '../../src/common/sealing.ts';
import { inspectAnswer } from '../../src/xmla/answer/inspect-answer.ts';
import { classify } from '../../src/xmla/request/classify.ts';
import { readRequest } from '../../src/xmla/request/read-request.ts';
import { ANSWER_TYPE, datasetOf, wholeAnswer } from '../answers.ts';
import { basic } from '../credentials.ts';
import { filled, template } from '../questions.ts';
import { principalOf } from '../../src/common/principal.ts';

/** One step of the line of a request. */
export interface Step {
  readonly name: string;
  call(): unknown;
  /** Whether it does what it should. */
  check(): boolean | Promise<boolean>;
}

const SESSION = '3a7f7b1e-0000-4000-8000-20260101aaaa';
const body = Buffer.from(
  filled(template({ size: 2048, session: '@SESSION@', freshIds: true }), { session: SESSION }),
);
const traits = ENGINE_KINDS.mondrian;
const read = () => readRequest(body, 'text/xml');
const reading = read();
if (reading.kind !== 'understood') throw new Error('the request is not understood');
const { request } = reading;

const asked = askedOf({
  engine: 'http://127.0.0.1:8080/xmla mondrian none',
  project: null,
  query: [],
  userAgentClass: 'mdx-gateway',
  accept: null,
  contentType: 'text/xml',
  soapAction: '"urn:schemas-microsoft-com:xml-analysis:Execute"',
  namedHeaders: undefined,
  request,
});
const parts: KeyParts = { asked, identity: 'user:ANALYST', session: 'a profile' };
const captured: Parameters<typeof queryKey>[1] = {
  scopes: ['everything', 'project:foodmart'],
  tokens: ['a'.repeat(22), 'b'.repeat(22)],
  keySecret: 'a secret of more than thirty-two letters',
};

const { Authorization } = basic('ANALYST');
const credentials = createVerifiedCredentials({
  table: createVerifiedTable(randomBytes(32)),
  trust: { verifiedFor: Infinity, since: 'use', believedFor: 0 },
  users: { accounts: { get: () => 'a proof' } },
  clock: systemClock,
});
credentials.remember(
  credentials.digest(Authorization),
  principalOf('ANALYST'),
  'a proof',
  systemClock.now(),
);

function storedAnswer(size: number): StoredAnswer & { readonly body: Buffer } {
  const shown = wholeAnswer(datasetOf(size), SESSION);
  const start = shown.indexOf(SESSION);
  const cut = cutOut([shown], { start, end: start + SESSION.length });
  return {
    body: Buffer.concat(cut),
    session: { at: start, encoding: 'utf-8' },
    sessionHeader: false,
    contentType: ANSWER_TYPE,
    contentLanguage: undefined,
    requestedAt: 1_760_000_000_000,
    lifetime: 3_600_000,
    engineMilliseconds: 50,
  };
}

const SIZES = [
  ['2 KB', 2_048],
  ['50 KB', 51_200],
  ['2 MB', 2 * 1024 * 1024],
] as const;
const key = queryKey(parts, captured);

const SEALERS = [
  ['', NO_SEALER],
  ['sealed, ', createSealer('a secret of more than thirty-two letters')],
] as const;

const splices = SIZES.map(([size, bytes]): Step => {
  const stored = storedAnswer(bytes);
  return {
    name: `session splice, ${size}`,
    call: () => withSession(stored, SESSION),
    check: () =>
      Buffer.concat(withSession(stored, SESSION)).equals(wholeAnswer(datasetOf(bytes), SESSION)),
  };
});

const inspections = SIZES.map(([size, bytes]): Step => {
  const shown = wholeAnswer(datasetOf(bytes), SESSION);
  const call = () => {
    const inspector = inspectAnswer({
      contentType: ANSWER_TYPE,
      method: 'Execute',
      errorsAsData: traits.errorsAsData,
    });
    inspector.write(shown);
    return inspector.end();
  };
  return {
    name: `answer inspected, ${size}`,
    call,
    check() {
      const inspection = call();
      return inspection.ok && inspection.session !== undefined;
    },
  };
});

/** As memory has it: a long one lies there compressed. */
async function keptAnswer(size: number): Promise<StoredAnswer> {
  const stored = storedAnswer(size);
  const text = keepText(() => {});
  text.write(stored.body);
  const at = stored.session?.at ?? 0;
  return { ...stored, body: await text.end({ start: at, end: at, leavesGap: true }) };
}
const kept = await Promise.all(SIZES.map(async ([, bytes]) => keptAnswer(bytes)));

const codings = SIZES.flatMap(([size], i) =>
  SEALERS.flatMap(([kind, sealer]): Step[] => {
    const stored = kept[i] as StoredAnswer;
    const made = () => encodeEntry(key, stored, ['a'.repeat(22)], sealer);
    let value: Buffer | undefined;
    const readBack = async () =>
      decodeEntry(key, (value ??= await made()), stored.body.length, sealer);
    return [
      {
        name: `value made, ${kind}${size}`,
        call: made,
        check: async () => (await made()).length > 0,
      },
      {
        name: `value read, ${kind}${size}`,
        call: readBack,
        async check() {
          const decoded = await readBack();
          return typeof decoded !== 'string' && isDeepStrictEqual(decoded.body, stored.body);
        },
      },
    ];
  }),
);

export const STEPS: readonly Step[] = [
  {
    name: 'envelope read, 1.7 KB',
    call: read,
    check: () => request.session.kind === 'in' && request.session.id === SESSION,
  },
  {
    name: 'classified',
    call: () => classify(request, traits),
    check: () => classify(request, traits) === undefined,
  },
  {
    name: 'key',
    call: () => queryKey(parts, captured),
    check: () => /^[\w-]{43}$/.test(key) && key === queryKey(parts, captured),
  },
  {
    name: 'credentials found',
    call: () => credentials.find(credentials.digest(Authorization)),
    check: () => credentials.find(credentials.digest(Authorization)) !== undefined,
  },
  ...splices,
  ...inspections,
  ...codings,
];
