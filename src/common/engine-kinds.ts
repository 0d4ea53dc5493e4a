/** Ways in which engines tell an error as data, beside the elements and `#ERR:` of all of them. */
export type ErrorAsData =
  /** The message of a Java exception as a value. */
  | 'java-exception'
  /** A dataset of its own making with the message, a member `dummy`, values of `xsi:type="string"`. */
  | 'error-dataset';

export interface EngineTraits {
  /** Of one not known here, or of another principal: past the cache to the engine, or answered by a Fault. */
  readonly strangeSessions: 'pass' | 'refuse';
  /** Whether the engine refuses a session id that belongs to another login. */
  readonly checksSessionOwner: boolean;
  /** Whether properties and first catalog of a session go on to count for later requests, and so for their keys. */
  readonly keepsProperties: boolean;
  /** Milliseconds without a request after which the engine drops a session; undefined: never. */
  readonly sessionIdle: number | undefined;
  /** Discover request types that must reach the engine each time. */
  readonly forwardedDiscovers: readonly string[];
  readonly readsUserAgent: boolean;
  /** Whether one semicolon may end a statement. */
  readonly endsBySemicolon: boolean;
  /** Whether a name such as `[NOW-1]`, or the value of any parameter, may be a formula (InterSystems). */
  readonly computesNames: boolean;
  readonly errorsAsData: readonly ErrorAsData[];
  /** The header by which the engine says `true` or `false` of an answer with status 200. */
  readonly successHeader: string | undefined;
  /** The columns of MDSCHEMA_CUBES that say when its data changed, and the schema that it shows it by. */
  readonly changeDates: readonly ChangeDate[];
}
export type ChangeDate = 'LAST_DATA_UPDATE' | 'LAST_SCHEMA_UPDATE';

/** The safe side of each. */
const GENERIC: EngineTraits = {
  strangeSessions: 'refuse',
  checksSessionOwner: false,
  keepsProperties: true,
  sessionIdle: undefined,
  forwardedDiscovers: [],
  readsUserAgent: true,
  endsBySemicolon: false,
  computesNames: true,
  errorsAsData: ['java-exception', 'error-dataset'],
  successHeader: 'success',
  changeDates: ['LAST_DATA_UPDATE', 'LAST_SCHEMA_UPDATE'],
};

const KNOWN = { ...GENERIC, computesNames: false } as const;
const PLAIN = { ...KNOWN, readsUserAgent: false, successHeader: undefined } as const;

/** What engines differ in; everything else treats all alike. Said is what is known for certain to be otherwise. */
export const ENGINE_KINDS = {
  generic: GENERIC,
  mondrian: {
    ...PLAIN,
    strangeSessions: 'pass',
    keepsProperties: false,
    errorsAsData: ['java-exception'],
    // The date of its data, if any, is the time of the question; that of its schema is when it was loaded.
    changeDates: ['LAST_SCHEMA_UPDATE'],
  },
  emondrian: {
    ...PLAIN,
    sessionIdle: 3_600_000,
    errorsAsData: ['java-exception'],
    changeDates: [],
  },
  // It tells success by a header on its second path, /mdx/xmla_server, which an engine URL may name.
  kylin: {
    ...KNOWN,
    strangeSessions: 'pass',
    keepsProperties: false,
    // Asking for its catalogs makes it read datasets and permissions anew.
    forwardedDiscovers: ['DBSCHEMA_CATALOGS'],
    changeDates: [],
  },
  ssas: {
    ...PLAIN,
    strangeSessions: 'pass',
    checksSessionOwner: true,
    endsBySemicolon: true,
    // Its MinIdleSessionTimeout, unless the operator of the engine has changed it.
    sessionIdle: 2_700_000,
    errorsAsData: [],
  },
} as const satisfies Readonly<Record<string, EngineTraits>>;

export type EngineKind = keyof typeof ENGINE_KINDS;
export const ENGINE_KIND_NAMES = Object.keys(ENGINE_KINDS) as readonly EngineKind[];

/** Whether an engine clears its own cache only for a caller whose login it gets. */
export const clearsAsCaller = ({ clear, login }: Readonly<Record<'clear' | 'login', string>>) =>
  clear !== 'none' && login === 'forward';
