import type { Outcome } from '../events.ts';
import type { CapturedEpochs } from './purge/epochs.ts';
import type { FillJob } from './fill/fill.ts';
import type { Flights } from './flight.ts';
import { inTurn } from './in-turn.ts';
import { queryKey } from './key/key.ts';
import type { Client, Query } from './query.ts';
import type { StoredAnswer } from './entries/stored-answer.ts';

const EPOCHS_UNKNOWN: Outcome = { kind: 'bypass', detail: 'epochs-unknown' };

/**
 * While nothing says which entries are true, every query goes to the engine; those that arrive in less time than a
 * purge takes still share one engine request.
 */
export function createAnswerWithoutEpochs(options: {
  /** Stands for the epochs in the keys of these flights. */
  withoutEpochs: CapturedEpochs;
  flights: Flights;
  /** No purge is acknowledged in less (ms); 0 where a purge waits for nobody. */
  purgeTakes: number;
  askEngine: (job: FillJob) => Promise<unknown>;
  replay: (answer: StoredAnswer, key: string, query: Query, client: Client) => void;
}): (query: Query, client: Client) => Promise<void> {
  const { flights, withoutEpochs, replay } = options;

  return async function answerWithoutEpochs(query, client) {
    if (client.signal.aborted) return;
    const key = queryKey(query.parts, withoutEpochs);
    const joined = query.fresh ? undefined : flights.join(key, client.signal, options.purgeTakes);
    const flight = joined === undefined ? flights.lead(key) : undefined;
    const landed = await joined?.catch(() => 'gone' as const);
    if (landed === 'gone') return;
    const pass = () =>
      options.askEngine({ query, client, flight, keep: undefined, bypass: EPOCHS_UNKNOWN });
    if (landed === undefined || landed === 'late') await pass();
    else if (landed.kind === 'nothing') await inTurn(landed.turns, client.signal, pass);
    else replay(landed.answer, key, query, client);
  };
}
