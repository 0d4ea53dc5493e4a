/** How much memory entries, bodies and connections get where the file does not say: what is usual, or what fits. */
import { sizes } from '../settings/kinds.ts';

/** Bytes that there are: in the heap of each process, and in the container for all processes together. */
export type Memory = Readonly<Record<'heap' | 'container', number>>;

const MIB = 1024 * 1024;
export const USUAL = { entries: 256 * MIB, bodies: 128 * MIB, connections: 160 * MIB } as const;
/** For each process that serves. */
const LEAST = { entries: 8 * MIB, bodies: 16 * MIB } as const;
/** Connections may take this part of the memory. */
const OF_CONNECTIONS = { heap: 1 / 4, container: 1 / 8 } as const;
/** What an open connection takes beside twice its head. */
const CONNECTION_SIZE_BYTES = { http: 24 * 1024, https: 96 * 1024 } as const;
/** Memory of a busy process beside all three. */
const OF_PROCESS = 160 * MIB;
/** A process that serves may be killed with less; the primary process of several comes beside. */
const NEEDED = { process: 192 * MIB, primary: 64 * MIB } as const;
/** Memory that was given back lies between what is in use, and takes this part of it. */
const SPREAD = 1 / 4;

const written = (bytes: number) => sizes.format(Math.floor(bytes / MIB) * MIB);

/** Settings of the file; undefined where it leaves the choice. */
interface Written {
  readonly workers: number;
  readonly listen: { readonly certificate: string | undefined };
  readonly cache: { readonly memory: number | undefined };
  readonly limits: Readonly<
    Record<'in_flight' | 'connections', number | undefined> & Record<'body' | 'head', number>
  >;
}

/** Memory of all workers together. */
export function fitMemory(file: Written, { heap, container }: Memory) {
  const { workers, listen, cache, limits } = file;
  const primary = workers === 1 ? 0 : NEEDED.primary;
  const own = Math.max(0, container - primary);
  const ofContainer = own * OF_CONNECTIONS.container;
  const open = Math.min(USUAL.connections, heap * OF_CONNECTIONS.heap, ofContainer);
  const room = (own - open - workers * OF_PROCESS) / (1 + SPREAD);
  const least = workers * Math.max(LEAST.bodies, limits.body);
  const ofBodies = cache.memory === undefined ? room / 3 : room - cache.memory;
  const bodies = limits.in_flight ?? clamp(ofBodies, least, USUAL.bodies);
  const entries = cache.memory ?? clamp(room - bodies, workers * LEAST.entries, USUAL.entries);
  const size = CONNECTION_SIZE_BYTES[listen.certificate === undefined ? 'http' : 'https'];
  const connections = limits.connections ?? Math.ceil(open / (size + 2 * limits.head));
  const wanted = (cache.memory ?? USUAL.entries) + (limits.in_flight ?? USUAL.bodies);
  const taken = `cache.memory ${written(entries)}, limits.in_flight ${written(bodies)}`;
  const needed = workers * NEEDED.process + primary;
  const what = workers === 1 ? 'the gateway needs' : `${workers} workers need`;
  const isTight = room < Math.max(wanted, USUAL.entries + USUAL.bodies);
  const isFitted = entries + bodies < wanted;
  const isUnfit = entries + bodies > Math.max(room, workers * LEAST.entries + least);
  const limit = `the memory limit of ${written(container)}`;
  return {
    entries,
    bodies,
    connections,
    /** Whether garbage must not grow to a multiple of what is in use. */
    isTight,
    /** Sentences, where they are true. */
    fitted: when(isFitted, `fitted to ${limit}: ${taken}, limits.connections ${connections}`),
    unfit: when(isUnfit, `${taken}: more than fits into ${limit}; the gateway may be killed`),
    tooLittle: when(container < needed, `${limit} is too little: ${what} ${written(needed)}`),
  };
}

const when = (isSo: boolean, sentence: string) => (isSo ? sentence : undefined);
/** Whole MiB. The upper bound counts where the bounds cross. */
const clamp = (bytes: number, least: number, most: number) =>
  Math.min(most, Math.max(Math.floor(bytes / MIB) * MIB, least));
