import { expect, test } from '@jest/globals';
import { until } from '../../support/http-client.ts';
import { gate, startStubEngine } from '../../support/stub-engine.ts';
import { ask, DOCUMENT, openRemoteHouse } from './remote-house.ts';
import { shared } from '../../support/opened.ts';

const remote = shared(() => startStubEngine(() => {}));

test('two changes of datasets by one user are held at one time, and roles wait for none of them', async () => {
  const letThrough = gate();
  remote.answerWith(async (response, request) => {
    if (request.method === 'PUT') await letThrough.opened;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end('{"status":0}');
  });
  const house = await openRemoteHouse(remote.url);
  const changesThere = () => remote.seen.filter(({ method }) => method === 'PUT').length;
  const changes = Array.from({ length: 6 }, () => ask(house, 'PUT', '/dataset', DOCUMENT));
  await until(() => changesThere() === 2);
  expect((await ask(house, 'GET', '/role/1')).status).toBe(200);
  expect(changesThere()).toBe(2);
  letThrough.open();
  expect((await Promise.all(changes)).map(({ status }) => status)).toEqual(Array(6).fill(200));
  await house.close();
});
