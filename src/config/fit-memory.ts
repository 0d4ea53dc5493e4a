import { sizes } from '../settings/kinds.ts';

/** Bytes of the heap of each process, and of the container. */
export type Memory = Readonly<Record<'heap' | 'container', number>>;

const MIB = 1024 * 1024;
export const USUAL = { entries: 256 * MIB, bodies: 128 * MIB, connections: 160 * MIB } as const;
const LEAST = { entries: 8 * MIB, bodies: 16 * MIB } as const;
const OF_CONNECTIONS = { heap: 1 / 4, container: 1 / 8 } as const;
/** Memory of an open connection, beside twice its head. */
const CONNECTION_SIZE_BYTES = { http: 24 * 1024, https: 96 * 1024 } as const;
/** Memory of a busy process beside all three. */
const OF_PROCESS = 160 * MIB;
/** With less, a process may be killed; several workers need the primary process too. */
const NEEDED = { process: 192 * MIB, primary: 64 * MIB } as const;
/** Freed memory is fragmented, and takes this share of the used one. */
const SPREAD = 1 / 4;

const written = (bytes: number) => sizes.format(Math.floor(bytes / MIB) * MIB);

interface Written {
  readonly workers: number;
  readonly listen: { readonly certificate: string | undefined };
  readonly cache: { readonly memory: number | undefined };
  readonly limits: Readonly<
    Record<'in_flight' | 'connections', number | undefined> & Record<'body' | 'head', number>
  >;
}

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
    /** True if garbage must not grow to a multiple of the used memory. */
    isTight,
    fitted: when(isFitted, `fitted to ${limit}: ${taken}, limits.connections ${connections}`),
    unfit: when(isUnfit, `${taken}: more than fits into ${limit}; the gateway may be killed`),
    tooLittle: when(container < needed, `${limit} is too little: ${what} ${written(needed)}`),
  };
}

const when = (isSo: boolean, sentence: string) => (isSo ? sentence : undefined);
/** Whole MiB. `most` wins over `least`. */
const clamp = (bytes: number, least: number, most: number) =>
  Math.min(most, Math.max(Math.floor(bytes / MIB) * MIB, least));
