import type { Stale } from '../../common/events.ts';

/** One call of an engine's own clear operation. */
export interface EngineClear {
  /** The URL of the replica, as configured. */
  readonly replica: string;
  readonly ok: boolean;
  /** Set when the replica was not even called. */
  readonly called?: false;
  /** One sentence for the operator, when it is not ok: what the engine said or why it could not be asked. */
  readonly why?: string;
}

/**
 * Port: has every replica of every engine whose answers may be stale clear its own cache, where it has one
 * (`engine.clear`). Resolves to one item for each replica that was called; none where nothing is configured.
 * Never rejects.
 * @param authorization that of the caller, for engines that are asked with the login of the client; undefined
 *   when there is none, such as for a purge that is repeated: such an engine is then not called, and there is no
 *   item of it
 */
export type ClearEngines = (
  stale: Stale,
  authorization: string | undefined,
) => Promise<readonly EngineClear[]>;
