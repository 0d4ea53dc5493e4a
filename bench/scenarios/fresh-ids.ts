import { datasetOf, wholeAnswer } from '../answers.ts';
import { askOnce, contest, expectBytes, expectHit, requestTo, type LoadShape } from '../contest.ts';
import { startGateway } from '../gateway.ts';
import { startEngine, startServer, type Subject } from '../house.ts';
import { template } from '../questions.ts';
import { beginSession, shownSession } from '../sessions.ts';
import type { Scenario } from './scenario.ts';

/** As many workbooks are open. */
const SESSIONS = 16;

/**
 * One question in many sessions, each request with ids of its own, as Excel asks: no two bodies are alike, and each
 * answer shows the session of its request.
 */
function freshIds(name: string, title: string, size: number): Scenario {
  return {
    name,
    title,
    async run(house) {
      const engine = await startEngine(house);
      const bare = await startServer(house, 'bare', 'bare.ts', [size]);
      const gateway = await startGateway(house, engine.port);
      const body = template({ size, session: '@SESSION@', freshIds: true });
      const sessions: string[] = [];
      for (let at = 0; at < SESSIONS; at++) sessions.push(await beginSession(gateway));
      for (const session of sessions) {
        await expectHit(gateway, body, wholeAnswer(datasetOf(size), session), { session });
      }
      const load = (subject: Subject): LoadShape => ({
        connections: 32,
        requests: [requestTo(subject, body)],
        sessions,
      });
      const options = { engine, reaches: 'none' } as const;
      const results = await contest(house, [bare, gateway], load, options);
      // What the load left behind must not have changed whose session is shown.
      for (const session of sessions) {
        const { body: answer } = await askOnce(gateway, body, { session });
        expectBytes(
          `session ${shownSession(answer)}`,
          answer,
          wholeAnswer(datasetOf(size), session),
        );
      }
      return {
        subjects: results.subjects,
        rows: [
          results.ratio('memory hit, fresh ids with session splice', {
            of: gateway,
            to: bare,
          }),
        ],
        notes: [`${SESSIONS} sessions of the engine`],
      };
    },
  };
}

export const freshIdHits: readonly Scenario[] = [
  freshIds('fresh-ids-2k', 'memory hits, fresh session and activity ids, 2 KB', 2048),
  freshIds('fresh-ids-50k', 'memory hits, fresh session and activity ids, 50 KB', 51_200),
];
