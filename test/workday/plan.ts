import type { EngineKind } from '../../src/common/engine-kinds.ts';

/** One thing that a person does, when it is due, whether or not what came before is answered. */
export type Act = { readonly at: number } & (
  | {
      /** Opens a workbook: begins a session where the program has them, and asks for what is in it. */
      readonly do: 'open';
      readonly questions: readonly Asked[];
      /** Whether the first requests of the session name no catalog, as Excel's do. */
      readonly catalogLater: boolean;
    }
  | { readonly do: 'ask'; readonly questions: readonly Asked[] }
  /** Groups, or makes a member, which stays in the session. */
  | { readonly do: 'change' }
  | { readonly do: 'close' }
  /**
   * Loads data into all engines and then has the gateways clear their caches, as a job does: at once, or when it is
   * `purgesAt`.
   */
  | { readonly do: 'load'; readonly purgesAt?: number }
);

/** By its place among the questions of the program, or a statement. */
export type Asked = number | string;

export interface Person {
  readonly name: string;
  readonly password: string;
  /** Of loopback: people come from their own address, or share that of their office. */
  readonly address: string;
  readonly program: string;
  readonly kind: EngineKind;
  /** Milliseconds from the beginning of the scene. */
  readonly acts: readonly Act[];
  /** After so long without an answer a request is given up (ms). */
  readonly patience: number;
}

/** The header Authorization. */
export const authorizationOf = ({ name, password }: Person): string =>
  `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;

/** What the process of the people needs to know. */
export interface Plan {
  readonly people: readonly Person[];
  readonly seed: number;
  /** The proxy. */
  readonly url: string;
  readonly ca: string;
  /** The port of the engines, where the load job loads. */
  readonly engine: number;
  /** Whether engines are sent the login of the person. */
  readonly forwardsLogin: boolean;
  /** Whether one person may get what was computed for another. */
  readonly isShared: boolean;
}

/** All kinds whose sessions differ in what counts; each has a project of its name. */
export const KINDS: readonly EngineKind[] = ['generic', 'ssas', 'emondrian', 'mondrian'];

/** People share passwords, of which each costs a comparison of its own all the same. */
export const PASSWORDS: readonly string[] = Array.from({ length: 8 }, (_, at) => `Password ${at}`);

/** The address that half of the people share, as behind the router of an office. */
const OFFICE = '127.0.1.1';

/** How long people wait for an answer (ms). */
const PATIENCE = 45_000;

interface PersonOptions {
  readonly program: string;
  readonly kind: EngineKind;
  readonly acts: readonly Act[];
  readonly patience?: number;
}

/** Makes people with names, passwords and addresses of their own. */
export function createCast() {
  const people: Person[] = [];
  return {
    people,
    join({ patience = PATIENCE, ...rest }: PersonOptions): void {
      const at = people.length;
      const own = `127.0.${2 + Math.floor(at / 250)}.${1 + (at % 250)}`;
      people.push({
        name: `user${String(at).padStart(4, '0')}`,
        password: PASSWORDS[at % PASSWORDS.length] ?? '',
        address: at % 2 === 0 ? OFFICE : own,
        patience,
        ...rest,
      });
    },
    /** The one who may clear the cache. */
    joinLoadJob(acts: readonly Act[]): void {
      people.push({
        name: ADMIN,
        password: PASSWORDS[0] ?? '',
        address: '127.0.0.9',
        program: 'olap4j',
        kind: 'generic',
        acts,
        patience: PATIENCE,
      });
    },
  };
}
export type Cast = ReturnType<typeof createCast>;

export const ADMIN = 'ADMIN';
