/** In the browser: keeps the page fresh that the gateway sent. */
import { render } from 'preact';
import { App, pageAt, STATUS } from './app.tsx';
import { call, problemOf } from './call.ts';
import type { Rights } from '../pages.ts';
import type { Status } from './json.ts';
import type { Told } from './page.ts';
import { moment } from './parts.tsx';

/** Between the end of a question and the next one (ms). */
const EVERY = 5_000;

const root = document.getElementById('page');
const connection = document.getElementById('connection');
const query = new URLSearchParams(location.search);
let timer: ReturnType<typeof setTimeout> | undefined;
let isAsking = false;
let lostAt: string | undefined;

async function tell<T>(target: string): Promise<Told<T> | undefined> {
  const answer = await call(target);
  if (answer.status === 200) return { told: answer.json as T };
  // Where nothing came, what is shown is the last that is known.
  return answer.status === 0 ? undefined : { problem: problemOf(answer) };
}

async function refresh(): Promise<void> {
  if (isAsking || root === null) return;
  isAsking = true;
  clearTimeout(timer);
  const status = await tell<Status>(STATUS.status);
  const rights: Rights | undefined = status && 'told' in status ? status.told.rights : undefined;
  const page = rights && pageAt(location.pathname, rights);
  const names = page?.isFor(rights as Rights) ? Object.entries(page.sources(query)) : [];
  const asked = names.map(async ([name, target]) => [name, await tell(target)] as const);
  const told = [['status', status] as const, ...(await Promise.all(asked))];
  const isWhole = told.every(([, source]) => source !== undefined);
  if (isWhole && page && rights) {
    const sources = Object.fromEntries(told) as Record<string, Told<unknown>>;
    const again = () => void refresh();
    render(<App page={page} rights={rights} told={sources} query={query} refresh={again} />, root);
  }
  const problem = isWhole
    ? status && 'problem' in status && status.problem
    : 'The gateway does not answer.';
  tellConnection(problem || undefined);
  isAsking = false;
  plan();
}

function tellConnection(problem: string | undefined): void {
  if (connection === null) return;
  lostAt = problem === undefined ? undefined : (lostAt ?? new Date().toISOString());
  connection.hidden = problem === undefined;
  const text =
    lostAt === undefined
      ? ''
      : `${problem} What you see is of ${moment(lostAt)} or before; it is asked again every ${EVERY / 1000} seconds.`;
  if (connection.textContent !== text) connection.textContent = text;
}

function plan(): void {
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(() => void refresh(), EVERY);
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden) clearTimeout(timer);
  else void refresh();
});
void refresh();
