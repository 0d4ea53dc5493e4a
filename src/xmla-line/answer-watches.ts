import type { AnswerWatch } from '../engine/engine.ts';
import {
  sessionHeader,
  sessionReader,
  tellEach,
  type SessionReader,
} from '../query-cache/answer-sessions.ts';
import type { AnswerHead } from '../query-cache/query.ts';
import { watchAnswer } from '../xmla/answer/watch-answer.ts';

/**
 * Looks for the session that an answer begins, in its HTTP header and its SOAP header.
 * @param begun told of its id before the client has the end of the answer, and where the two name different ones of
 *   both, with the ids that were told before; never rejects
 */
export function watchForSession(
  begun: (id: string, before: readonly string[]) => Promise<unknown>,
): AnswerWatch {
  let reader: SessionReader | undefined;
  let byHeader: string | undefined;
  const tell = tellEach(begun);

  function tellBoth(): Promise<void> | undefined {
    const first = tell(byHeader);
    const second = first === undefined ? tell(reader?.id) : first.then(() => tell(reader?.id));
    return second?.then(() => {});
  }

  return {
    // The piece that completes the id is handed on when it has been told.
    holdsLast: false,
    head(head: AnswerHead) {
      if (head.status !== 200) return;
      reader = sessionReader(head);
      byHeader = sessionHeader(head);
    },
    write(chunk) {
      if (reader === undefined || reader.done) return undefined;
      reader.write(chunk);
      return tellBoth();
    },
    end: tellBoth,
  };
}

/** Statuses of a proxy before the engine that has its answer from nobody (RFC 9110 §15.6.3 to §15.6.5). */
const OF_A_PROXY: ReadonlySet<number> = new Set([502, 503, 504]);

/**
 * Waits for what a statement in passing changed.
 * @param undoneByFault whether a Fault and nothing else as the answer means that nothing was done
 * @param succeeded called when it was done (`after`), or when it may have been done or be under way still
 *   (`unknown`). What it throws the client is told instead of the answer
 */
export function watchForSuccess(
  undoneByFault: boolean,
  succeeded: (state: 'after' | 'unknown') => Promise<void>,
): AnswerWatch {
  let reader: ReturnType<typeof watchAnswer> | undefined;
  let ofProxy = false;
  return {
    holdsLast: true,
    head({ status, headers }) {
      ofProxy = OF_A_PROXY.has(status);
      reader = watchAnswer({ contentType: headers['content-type'] });
    },
    write(chunk) {
      reader?.write(chunk);
    },
    async end(outcome) {
      reader?.end();
      if (outcome === 'not-sent') return;
      if (outcome === 'broken') return succeeded('unknown');
      if (undoneByFault && reader?.faultOnly === true) return;
      await succeeded(ofProxy ? 'unknown' : 'after');
    },
  };
}

/** Several watches as one, asked one after the other; undefined for none. */
export function bothWatches(
  ...watches: readonly (AnswerWatch | undefined)[]
): AnswerWatch | undefined {
  const all = watches.filter((watch) => watch !== undefined);
  if (all.length <= 1) return all[0];
  return {
    holdsLast: all.some(({ holdsLast }) => holdsLast),
    head(head) {
      for (const watch of all) watch.head(head);
    },
    async write(chunk) {
      for (const watch of all) await watch.write(chunk);
    },
    async end(outcome) {
      for (const watch of all) await watch.end(outcome);
    },
  };
}
