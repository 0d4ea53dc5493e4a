import type { EngineKind } from '../../../src/common/engine-kinds.ts';
import type { EngineRequest } from '../../support/engine-request.ts';
import { createSessionModel, type SessionAnswer } from '../../support/session-model.ts';

/** One session of the engine, from its beginning until its id is given out again. */
export interface Life {
  readonly id: string;
  readonly owner: string;
  /** The number of the gateway through which it was begun. */
  readonly home: number;
  readonly isAgain: boolean;
  /** Whether its beginning was told to the client. */
  told: boolean;
  /** Whether its gateway reached nothing from its beginning until the client was told. */
  bornAway: boolean;
  /** Of the outage of its home in which it was begun. */
  outage: number;
  /** The moment (ms). */
  readonly bornAt: number;
  /**
   * Gateways that have to find the store first before its id stands for it everywhere: of an id that was given out again
   * its own where that was cut off, else all that were. Nothing is proven until then.
   */
  readonly unsure: Set<number>;
  /** Gateways that have heard of it, and not only of another one that had its id before. */
  readonly heardAt: Set<number>;
  /** Something was sent in it through a gateway that was cut off and had not heard of it: nothing is proven by it any more. */
  isBlurred: boolean;
  /** An end was sent, or the engine has dropped it. */
  over: boolean;
}

/** What a request may be answered by, from its arrival on: what the engine would say at any moment. */
export interface Watched {
  readonly request: EngineRequest;
  readonly truths: Set<string>;
  /** Whose sessions had its id meanwhile. */
  readonly lives: Set<Life>;
}

export type World = ReturnType<typeof createWorld>;

/** It remembers so many ids that are over. */
const FREE = 40;
/** The engine, and what is true of its sessions. */
export function createWorld(options: {
  kind: EngineKind;
  random: (below: number) => number;
  now: () => number;
}) {
  const { random } = options;
  const lives = new Map<string, Life>();
  const watches = new Set<Watched>();
  let free: readonly string[] = [];
  let asker = '';
  let reuse = 1;
  let made = 0;
  const model = createSessionModel({ ...options, sessionIds });

  function sessionIds(): string {
    // No engine gives an id out again as long as something is under way in its session.
    const underWay = new Set([...watches].map(({ request }) => request.session.id));
    const quiet = free.filter((id) => !underWay.has(id));
    const own = quiet.filter((id) => lives.get(id)?.owner === asker);
    // Also of another user, now and then.
    const from = random(4) === 0 ? quiet : own;
    const again = random(reuse) === 0 ? from[random(from.length || 1)] : undefined;
    free = free.filter((id) => id !== again);
    return again ?? `session-${(made += 1)}`;
  }

  function look(watch: Watched): void {
    watch.truths.add(JSON.stringify(model.wouldHold(watch.request)));
    const life = lives.get(watch.request.session.id);
    if (life !== undefined) watch.lives.add(life);
  }

  /** What may have changed is looked at once more, for all who wait. */
  function lookAgain(id: string): void {
    for (const watch of watches) if (watch.request.session.id === id) look(watch);
  }

  function setFree(id: string): void {
    if (!model.isLive(id) && lives.has(id) && !free.includes(id)) free = [...free, id].slice(-FREE);
  }

  return {
    life: (id: string) => lives.get(id),
    alive: () =>
      [...lives.values()].filter(({ id, told, over }) => told && !over && model.isLive(id)),
    isLive: model.isLive,
    watch(request: EngineRequest): Watched {
      const watch: Watched = { request, truths: new Set(), lives: new Set() };
      look(watch);
      watches.add(watch);
      return watch;
    },
    unwatch: (watch: Watched) => void watches.delete(watch),
    /**
     * @param leaves whether it may leave something in its session
     * @param oneIn of so many ids one was in use before, most often by the same user
     */
    answer(request: EngineRequest, leaves: boolean, oneIn: number): SessionAnswer {
      [asker, reuse] = [request.user, oneIn];
      const made = model.make(request, Buffer.from(leaves ? 'LEAVE' : ''));
      const answer = { ...model.write(made), stamp: made.stamp };
      const { kind, id } = request.session;
      if (kind === 'end' && random(3) === 0) setFree(id);
      if (kind !== 'none' && kind !== 'begin') lookAgain(id);
      return answer;
    },
    /** Notes the session that an answer has begun. */
    began(life: Life): void {
      // The latest last.
      lives.delete(life.id);
      lives.set(life.id, life);
      lookAgain(life.id);
    },
    /** The engine ends it by itself. */
    drop(life: Life): void {
      life.over = true;
      model.drop(life.id);
      setFree(life.id);
    },
  };
}
