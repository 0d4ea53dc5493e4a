import { datasetOf, emptyAnswer, wholeAnswer } from '../answers.ts';
import { askOnce, atLeast, contest, expectBytes, requestTo, type LoadShape } from '../contest.ts';
import { startGateway } from '../gateway.ts';
import { startEngine, startServer, type Subject } from '../house.ts';
import { template, type Question } from '../questions.ts';
import type { Scenario } from './scenario.ts';

/** Requests that must not be answered from a cache, beside a proxy that has none. */
function passThrough(name: string, title: string, question: Question, target?: number): Scenario {
  return {
    name,
    title,
    async run(house) {
      const engine = await startEngine(house);
      const undici = await startServer(house, 'bare with undici', 'forward.ts', [engine.port]);
      const proxy = await startServer(house, 'http-proxy-middleware', 'proxy.ts', [engine.port]);
      const gateway = await startGateway(house, engine.port);
      const subjects = [undici, proxy, gateway];
      const body = template(question);
      const expected = wholeAnswer(
        question.kind === 'empty' ? emptyAnswer() : datasetOf(question.size),
      );
      for (const subject of subjects) {
        const answer = await askOnce(subject, body);
        expectBytes(subject.name, answer.body, expected);
        const said = String(answer.headers['cache-status'] ?? 'fwd=bypass');
        if (!said.includes('fwd=bypass')) throw new Error(`not passed through: ${said}`);
      }
      const load = (subject: Subject): LoadShape => ({
        connections: 32,
        requests: [requestTo(subject, body)],
      });
      const options = {
        engine,
        reaches: 'all',
        ...(target === undefined && { rounds: 3 }),
      } as const;
      const results = await contest(house, subjects, load, options);
      return {
        subjects: results.subjects,
        rows: [
          results.ratio('pass-through', {
            of: gateway,
            to: proxy,
            ...(target !== undefined && { target: atLeast(target) }),
          }),
          results.ratio('pass-through', { of: gateway, to: undici }),
          results.ratio('http-proxy-middleware', { of: proxy, to: undici }),
        ],
      };
    },
  };
}

export const passThroughs: readonly Scenario[] = [
  passThrough(
    'pass-2k',
    'pass-through, DRILLTHROUGH, 2 KB',
    { size: 2048, kind: 'drillthrough' },
    0.9,
  ),
  passThrough(
    'pass-2m',
    'pass-through, DRILLTHROUGH, 2 MB',
    { size: 2 * 1024 * 1024, kind: 'drillthrough' },
    0.9,
  ),
  passThrough('pass-empty', 'pass-through, empty statement', { size: 0, kind: 'empty' }),
];
