import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { EVENTS } from '../../../../src/features/events.ts';
import { auditLines, createLog } from '../../../../src/observability/log.ts';
import { EVERY_EVENT } from './every-event.ts';

/** One line for each of the events: whether it is an audit line, and the line less its time. */
const LINES = new URL('./every-event.jsonl', import.meta.url);

test('each event is told by the line that programs know', () => {
  const told: string[] = [];
  const output = {
    [Symbol.for('pino.metadata')]: true,
    lastMsg: undefined,
    lastObj: undefined,
    write(line: string) {
      const isAudit = auditLines(EVENTS)(output.lastMsg, output.lastObj);
      told.push(`${isAudit ? 'audit' : '-'} ${line.replace(/,"time":"[^"]*"/, '')}`);
    },
  };
  const { on } = createLog(EVENTS, { level: 'debug', slow: 5_000, statements: 'slow' }, output);
  for (const event of EVERY_EVENT) on(event);
  expect(told.join('').split('\n')).toEqual(readFileSync(LINES, 'utf8').split('\n'));
});
