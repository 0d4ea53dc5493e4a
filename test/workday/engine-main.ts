/*
 * The engine of the drill, in a process of its own: one for each kind, at /KIND/xmla. Each knows the right answer to every
 * question, keeps sessions as its kind does, and frames its answers by the seed.
 */
import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { faultAnswer } from '../support/answers.ts';
import { readEngineRequest } from '../support/engine-request.ts';
import { freePort } from '../support/free-port.ts';
import { framingSeed } from '../support/framing.ts';
import { randomFrom } from '../support/mutate.ts';
import { createSessionModel, type SessionModel } from '../support/session-model.ts';
import { sendXml, startStubEngine, type SeenRequest } from '../support/stub-engine.ts';
import { serveRemote } from './remote.ts';
import { FINE, OVERLOADED, ownTime, type Weather } from './weather.ts';

const below = randomFrom(framingSeed());
const models = new Map<string, SessionModel>();
let weather = FINE;
let requests = 0;
let endless = 0;
/** Headers Authorization that are right; undefined where all are. */
let logins: ReadonlySet<string> | undefined;
/** How often each statement that takes long came. */
const slow = new Map<string, number>();

const REFUSALS = [
  sendXml(OVERLOADED, { status: 503, headers: { 'content-type': 'text/plain' } }),
  sendXml(faultAnswer().replace('The Mondrian XML: cube not found', OVERLOADED)),
] as const;

const UNKNOWN = sendXml('Who is that?', { status: 401, headers: { 'content-type': 'text/plain' } });

function modelAt(path: string): SessionModel {
  const kind = path.split('/')[1] ?? '';
  const model = models.get(kind) ?? createSessionModel({ kind: kind as EngineKind });
  models.set(kind, model);
  return model;
}

/** Others must not get its port while it is away. */
const port = await freePort();
const stub = await startStubEngine(answer, { port });

async function answer(response: ServerResponse, seen: SeenRequest): Promise<void> {
  // The list of requests would grow all day.
  stub.seen.length = 0;
  const request = readEngineRequest(seen.body, seen.headers);
  requests += 1;
  if (logins?.has(seen.headers.authorization ?? '') === false) return UNKNOWN(response, seen);
  const { least, most, refusesOneIn } = weather;
  const own = ownTime(request.statement);
  if (own > 0) slow.set(request.statement, (slow.get(request.statement) ?? 0) + 1);
  const time = Math.max(own, least + below(most - least + 1));
  if (time === Infinity) return void (endless += 1);
  // The probes of gateways have no login; an engine that is overloaded is there.
  if (refusesOneIn > 0 && request.user !== '' && below(refusesOneIn) === 0) {
    await delay(least);
    return REFUSALS[below(REFUSALS.length)]?.(response, seen);
  }
  const model = modelAt(seen.url);
  // What it says is true when the request comes; then it takes its time.
  const { text, headers } = model.write(model.make(request, seen.body));
  await delay(time);
  return sendXml(text, { headers })(response, seen);
}

serveRemote({
  port: () => stub.port,
  weather: (next: Weather) => void (weather = next),
  leave: () => stub.leave(),
  comeBack: () => stub.comeBack(),
  logins: (right: readonly string[]) => void (logins = new Set(right)),
  counts: () => ({ requests, endless, slow: Object.fromEntries(slow) }),
});
