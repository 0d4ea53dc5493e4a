import type { Sessions } from '../sessions/sessions.ts';
import { sessionProfile } from '../sessions/profile.ts';
import type { XmlaRequest } from '../xmla/request/xmla-request.ts';
import type { Destination } from './destination.ts';

/** A session that the engine began with the answer to a request, asked for or by itself. */
export interface BegunSession {
  readonly id: string;
  /** Other ids that the same answer named before. */
  readonly before: readonly string[];
  readonly principal: string;
  /** Undefined where the request was not understood, or what it names may not be kept. */
  readonly request: XmlaRequest | undefined;
  readonly replica: string | undefined;
  /** Whether the request may have left something behind in it. */
  readonly leftState: boolean;
}

/** Notes it before its id reaches the client. Never rejects. */
export async function noteBegun(
  sessions: Sessions,
  destination: Destination,
  { id, before, principal, request, replica, leftState }: BegunSession,
): Promise<void> {
  const { place, engine, traits } = destination;
  const kept = traits.keepsProperties ? request : undefined;
  await sessions.begin(
    { place, id },
    {
      principal,
      profile: kept === undefined ? '' : sessionProfile(kept.properties, kept.headers),
      catalog: catalogOf(kept),
      replica: replica ?? engine.replicaFor(id),
      // Of two names of one session neither may stay clean when something is done under the other.
      dirty: leftState || before.length > 0,
    },
  );
  if (before.length > 0) await sessions.dirty(before.map((other) => ({ place, id: other })));
}

function catalogOf(request: XmlaRequest | undefined): string | null {
  const named = request?.properties.find(({ name, value }) => name === 'Catalog' && value !== '');
  return named?.value ?? null;
}
