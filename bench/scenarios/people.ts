/** Loads as people make them: they ask when they ask, log in in the morning, go away and come back. */
import { setTimeout as delay } from 'node:timers/promises';
import { requestTo } from '../contest.ts';
import { ANALYST, basic, PEOPLE, TEAM } from '../credentials.ts';
import { startGateway } from '../gateway.ts';
import { startEngine, type House, type Subject } from '../house.ts';
import { outcomeRows, sendWhenDue } from '../load/open-loop.ts';
import { filled, template } from '../questions.ts';
import { expectMixed, mixedLoadOf } from './mixed.ts';
import type { Scenario } from './scenario.ts';

/** Of short answers. */
const SIZE = 3_072;
/** Requests a second: far less than a core can do, and more than a large team asks. */
const RATES = [50, 200] as const;
const ASKED_FOR_SECONDS = 15;
/** Longer than a right login counts without another check (ms). */
const AWAY = 65_000;
const QUESTIONS = 50;

/** What one user asks. */
const asking = (gateway: Subject, user: string, name: string) =>
  requestTo(gateway, template({ size: SIZE, name }), basic(user));
const numbered = (from: number, count: number) =>
  Array.from({ length: count }, (_, at) => `Q${from + at}`);
const some = ({ settings }: House, users: readonly string[]) =>
  settings.quick ? users.slice(0, 3) : users;

const openLoop: Scenario = {
  name: 'open-loop',
  title: '20 users, 90 % hits, sizes as of pivot tables; requests are due at a rate',
  async run(house) {
    const engine = await startEngine(house);
    const gateway = await startGateway(house, engine.port);
    await expectMixed(house, gateway);
    const { requests, deck = [] } = mixedLoadOf(house)(gateway, 0);
    const rows = [];
    let number = 0;
    for (const rate of RATES) {
      const count = rate * (house.settings.quick ? 1 : ASKED_FOR_SECONDS);
      const due = deck.slice(number, number + count).flatMap((at) => {
        const request = requests[at];
        number += 1;
        return request ? [{ ...request, body: filled(request.body, { number }) }] : [];
      });
      const outcome = await sendWhenDue(gateway, engine, rate, due);
      rows.push(...outcomeRows(`${rate} a second`, outcome));
    }
    return { rows };
  },
};

const logins: Scenario = {
  name: 'logins',
  title: 'first logins of 200 users at once, bcrypt of cost 10; then they come back',
  async run(house) {
    const engine = await startEngine(house);
    const gateway = await startGateway(house, engine.port);
    const users = some(house, PEOPLE);
    const requests = users.map((user) => asking(gateway, user, 'A'));
    const first = await sendWhenDue(gateway, engine, Infinity, requests);
    // Who was refused tries again, one after the other.
    for (const request of requests) await sendWhenDue(gateway, engine, Infinity, [request]);
    const next = await sendWhenDue(gateway, engine, 100, requests);
    const away = house.settings.quick ? 1_000 : AWAY;
    await delay(away);
    const back = await sendWhenDue(gateway, engine, 20, requests);
    return {
      rows: [
        ...outcomeRows('first login', first),
        ...outcomeRows('next click', next),
        ...outcomeRows(`click after ${away / 1000} s`, back),
      ],
      notes: [`${((first.requests - first.refused) / first.seconds).toFixed(1)} logins a second`],
    };
  },
};

const firstAsks: Scenario = {
  name: 'first-asks',
  title: 'first asks of 20 users, of what another user asked before; share: everyone',
  async run(house) {
    const engine = await startEngine(house);
    const gateway = await startGateway(house, engine.port, {
      settings: { cache: { share: 'everyone', engine_permissions_ignored: true } },
    });
    const names = numbered(0, house.settings.quick ? 5 : QUESTIONS);
    const users = some(house, TEAM);
    const known = names.map((name) => asking(gateway, ANALYST, name));
    await sendWhenDue(gateway, engine, 100, known);
    for (const user of users) {
      await sendWhenDue(gateway, engine, Infinity, [asking(gateway, user, 'login')]);
    }
    const asked = names.flatMap((name) => users.map((user) => asking(gateway, user, name)));
    const first = await sendWhenDue(gateway, engine, 200, asked);
    const again = await sendWhenDue(gateway, engine, 200, asked);
    const reached = first.reached + again.reached;
    if (reached > 0)
      throw new Error(`${reached} requests reached the engine, though all must be hits`);
    return { rows: [...outcomeRows('first ask', first), ...outcomeRows('asked again', again)] };
  },
};

export const people: readonly Scenario[] = [openLoop, logins, firstAsks];
