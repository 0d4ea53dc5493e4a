/** What became of one request, as its person sees it. */
export type Verdict =
  /** What the engine would say at that moment. */
  | 'right'
  /** No answer that the engine would give. */
  | 'refused'
  /** Other bytes than the engine's, or the connection broke within. */
  | 'cut'
  /** What belongs to another user, session or question. */
  | 'wrong'
  /** Computed from data older than a purge that was acknowledged before the request was sent. */
  | 'old';

export interface Judgement {
  readonly verdict: Verdict;
  /** What it was answered, in short; of a right answer what Cache-Status says. */
  readonly words: string;
}

export type Deed = 'begin' | 'ask' | 'first-catalog' | 'change' | 'end' | 'purge';

export interface Outcome extends Judgement {
  readonly person: string;
  readonly kind: string;
  readonly deed: Deed;
  /** The statement or request type. */
  readonly asked: string;
  /** When it was due, sent and answered (ms, by a clock that all processes share). */
  readonly due: number;
  readonly sent: number;
  readonly answered: number;
  /** When its session was begun; undefined without one. */
  readonly sessionBegan: number | undefined;
}

/** Milliseconds by the clock of the machine, the same in all processes. */
export const machineTime = (): number => Number(process.hrtime.bigint()) / 1e6;
