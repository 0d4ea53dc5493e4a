import { expect, test } from '@jest/globals';
import { Command } from 'ioredis';
import { shareDeadline } from '../../../src/redis/shared-deadline.ts';

/** A connection that answers nothing by itself. */
function connection(deadline: number) {
  const redis = { sendCommand: (command: Command): unknown => command.promise };
  shareDeadline(redis, deadline);
  return (name: string) => {
    const command = new Command(name);
    redis.sendCommand(command);
    return command;
  };
}

const TIMED_OUT = 'Command timed out';

test('a command that nobody answers is rejected, and one that is answered is not', async () => {
  const send = connection(5);
  const [first, answered, last] = [send('get'), send('get'), send('get')];
  answered.resolve(Buffer.from('answer'));
  await expect(first.promise).rejects.toThrow(TIMED_OUT);
  await expect(last.promise).rejects.toThrow(TIMED_OUT);
  expect(await answered.promise).toEqual(Buffer.from('answer'));
});

test('those that come after others were rejected have a time of their own', async () => {
  const send = connection(5);
  for (let round = 0; round < 3; round += 1) {
    await expect(send('get').promise).rejects.toThrow(TIMED_OUT);
  }
  const last = send('get');
  last.resolve(null);
  expect(await last.promise).toBeNull();
});

test('an answer that came while this process was busy counts', async () => {
  const send = connection(5);
  const answer = await new Promise((resolve, reject) => {
    // From here the loop comes to the timer of the deadline before it comes to the answer.
    setImmediate(() => {
      const command = send('get');
      command.promise.then(resolve, reject);
      setImmediate(() => command.resolve('answer'));
      const until = performance.now() + 20;
      while (performance.now() < until);
    });
  });
  expect(answer).toBe('answer');
});
