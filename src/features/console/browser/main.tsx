import { render } from 'preact';
import { App, pageAt } from './app.tsx';
import { call, problemOf } from './call.ts';
import type { Status } from './json.ts';
import { tellAll } from './page.ts';
import type { Told } from '../pages.ts';
import { moment } from './parts.tsx';

const LOST = 'The gateway does not answer.';
/** Pause between two questions (ms). */
const EVERY = 5_000;

const root = document.getElementById('page');
const connection = document.getElementById('connection');
const query = new URLSearchParams(location.search);
let timer: ReturnType<typeof setTimeout> | undefined;
let isAsking = false;
let lostAt: string | undefined;

async function tell(target: string): Promise<Told | undefined> {
  const answer = await call(target);
  if (answer.status === 200) return { told: answer.json };
  // Where nothing came, the last that is known stays.
  return answer.status === 0 ? undefined : { problem: problemOf(answer) };
}

/** Most likely the gateway was upgraded under this page. */
const failed = (error: unknown) =>
  `This page cannot show what the gateway says (${String(error)}): load it again.`;

async function refresh(): Promise<void> {
  if (isAsking || document.hidden || root === null) return;
  isAsking = true;
  clearTimeout(timer);
  tellConnection(await show(root).catch(failed));
  isAsking = false;
  timer = setTimeout(again, EVERY);
}

const again = () => void refresh();

/** @returns what is wrong; undefined when all is shown as it is now */
async function show(root: HTMLElement): Promise<string | undefined> {
  const status = await tell('/admin/status');
  if (status === undefined) return LOST;
  if ('problem' in status) return status.problem;
  const { rights } = status.told as Status;
  const page = pageAt(location.pathname, rights);
  // The user got other rights meanwhile: the server says what is there now.
  if (!page?.isFor(rights)) return void location.reload();
  const told = await tellAll(page.sources(query), query, tell);
  if (Object.values(told).includes(undefined)) return LOST;
  const sources = { ...told, status };
  render(<App {...{ page, rights, sources, query }} refresh={again} />, root);
  return undefined;
}

function tellConnection(problem: string | undefined): void {
  if (connection === null) return;
  lostAt = problem && (lostAt ?? new Date().toISOString());
  connection.hidden = !lostAt;
  const text = lostAt
    ? `${problem} What you see is of ${moment(lostAt)} or before; it is asked again every ${EVERY / 1000} seconds.`
    : '';
  if (connection.textContent !== text) connection.textContent = text;
}

document.addEventListener('visibilitychange', again);
again();
