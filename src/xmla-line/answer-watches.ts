import type { AnswerWatch } from '../engine/engine.ts';
import type { AnswerHead } from '../query-cache/query.ts';
import { watchAnswer } from '../xmla/watch-answer.ts';

/**
 * Looks for the session that an answer begins.
 * @param begun told of its id before the client has the end of the answer; never rejects
 */
export function watchForSession(begun: (id: string) => Promise<unknown>): AnswerWatch {
  let reader: ReturnType<typeof watchAnswer> | undefined;
  let byHeader: string | undefined;
  let told = false;

  function look(): Promise<unknown> | undefined {
    const id = reader?.session?.id ?? byHeader;
    if (told || id === undefined || id === '') return undefined;
    told = true;
    return begun(id);
  }

  return {
    // The piece that completes the id is handed on when it has been told.
    holdsLast: false,
    head({ status, headers }: AnswerHead) {
      if (status !== 200) return;
      reader = watchAnswer({ contentType: headers['content-type'] });
      byHeader = [headers['x-as-sessionid']].flat()[0];
    },
    write(chunk) {
      if (reader === undefined || reader.headerRead) return undefined;
      reader.write(chunk);
      return look()?.then(() => {});
    },
    async end() {
      reader?.end();
      await look();
    },
  };
}

/**
 * Waits for what a statement in passing changed.
 * @param succeeded called unless the engine answered with a Fault and nothing else: whatever became of the
 *   statement otherwise, it may have been done. What it throws the client is told instead of the answer
 */
export function watchForSuccess(succeeded: () => Promise<void>): AnswerWatch {
  let reader: ReturnType<typeof watchAnswer> | undefined;
  return {
    holdsLast: true,
    head({ headers }) {
      reader = watchAnswer({ contentType: headers['content-type'] });
    },
    write(chunk) {
      reader?.write(chunk);
    },
    async end(whole) {
      reader?.end();
      if (!whole || reader?.faultOnly !== true) await succeeded();
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
    async end(whole) {
      for (const watch of all) await watch.end(whole);
    },
  };
}
