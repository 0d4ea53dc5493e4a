/** Errors that an engine tells as data, beside elements and `#ERR:`, which all use. */
export type ErrorAsData =
  | 'java-exception'
  /** A dataset with the message, a member `dummy`, values of `xsi:type="string"`. */
  | 'error-dataset';

export interface EngineTraits {
  /** Unknown sessions, or those of another principal: passed to the engine, or a Fault. */
  readonly strangeSessions: 'pass' | 'refuse';
  readonly checksSessionOwner: boolean;
  /** Properties and first catalog of a session count for its later requests, and their keys. */
  readonly keepsProperties: boolean;
  /** Idle time before the engine drops a session (ms); undefined: never. */
  readonly sessionIdle: number | undefined;
  /** Asked for catalogs or the current one, it reads datasets and permissions anew. */
  readonly catalogsReread: boolean;
  readonly readsUserAgent: boolean;
  readonly endsBySemicolon: boolean;
  /** A name such as `[NOW-1]`, or a parameter, may be a formula (InterSystems). */
  readonly computesNames: boolean;
  readonly errorsAsData: readonly ErrorAsData[];
  /** Header with `true` or `false` in an answer with status 200. */
  readonly successHeader: string | undefined;
  /** Columns of MDSCHEMA_CUBES that tell when its data, or its schema, changed. */
  readonly changeDates: readonly ChangeDate[];
}
export type ChangeDate = 'LAST_DATA_UPDATE' | 'LAST_SCHEMA_UPDATE';

const GENERIC: EngineTraits = {
  strangeSessions: 'refuse',
  checksSessionOwner: false,
  keepsProperties: true,
  sessionIdle: undefined,
  catalogsReread: false,
  readsUserAgent: true,
  endsBySemicolon: false,
  computesNames: true,
  errorsAsData: ['java-exception', 'error-dataset'],
  successHeader: 'success',
  changeDates: ['LAST_DATA_UPDATE', 'LAST_SCHEMA_UPDATE'],
};

const KNOWN = { ...GENERIC, computesNames: false } as const;
const PLAIN = { ...KNOWN, readsUserAgent: false, successHeader: undefined } as const;

/** Differences between engines, as far as they are certain; all else is alike. */
export const ENGINE_KINDS = {
  generic: GENERIC,
  mondrian: {
    ...PLAIN,
    strangeSessions: 'pass',
    keepsProperties: false,
    errorsAsData: ['java-exception'],
    // Its date of data, if any, is that of the question; that of the schema is its loading.
    changeDates: ['LAST_SCHEMA_UPDATE'],
  },
  emondrian: {
    ...PLAIN,
    sessionIdle: 3_600_000,
    errorsAsData: ['java-exception'],
    changeDates: [],
  },
  // Its second path, /mdx/xmla_server, which an engine URL may name, has the success header.
  kylin: {
    ...KNOWN,
    strangeSessions: 'pass',
    keepsProperties: false,
    catalogsReread: true,
    changeDates: [],
  },
  ssas: {
    ...PLAIN,
    strangeSessions: 'pass',
    checksSessionOwner: true,
    endsBySemicolon: true,
    // MinIdleSessionTimeout, unless the operator of the engine changed it.
    sessionIdle: 2_700_000,
    errorsAsData: [],
  },
} as const satisfies Readonly<Record<string, EngineTraits>>;

export type EngineKind = keyof typeof ENGINE_KINDS;
export const ENGINE_KIND_NAMES = Object.keys(ENGINE_KINDS) as readonly EngineKind[];

/** True where an engine clears its cache only with the login of a caller. */
export const clearsAsCaller = ({ clear, login }: Readonly<Record<'clear' | 'login', string>>) =>
  clear !== 'none' && login === 'forward';
