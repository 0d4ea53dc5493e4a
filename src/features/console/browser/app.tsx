import type { ComponentChildren, RenderableProps } from 'preact';
import type { AllTold, Rights } from '../pages.ts';
import type { Status } from './json.ts';
import { overviewPage } from './overview.tsx';
import type { Page, PageView } from './page.ts';
import { type Fact, facts, ofLimit, time, ways } from './parts.tsx';
import { purgesPage } from './purges.tsx';
import { queriesPage } from './queries.tsx';
import { systemPage } from './system.tsx';
import { warmPage } from './warm.tsx';
import { whyPage } from './why.tsx';
import { count, duration, size } from '../../../common/words.ts';

const PAGES = [overviewPage, whyPage, queriesPage, purgesPage, warmPage, systemPage];

/** Pages that this user may see; /console itself is the first of these. */
const pagesFor = (rights: Rights): readonly Page[] => PAGES.filter((page) => page.isFor(rights));

/** Finds the page under a path; `pagesFor` says whether the user may see it. */
export function pageAt(path: string, rights: Rights): Page | undefined {
  const exact = path.replace(/\/$/, '');
  return exact === '/console' ? pagesFor(rights)[0] : PAGES.find((page) => page.path === exact);
}

type AppProps = Pick<PageView, 'query' | 'rights' | 'refresh'> & { page: Page; sources: AllTold };
export function App({ page, sources, ...given }: AppProps) {
  function told<T>(name: string) {
    const source = sources[name];
    return source && 'told' in source ? (source.told as T) : undefined;
  }
  function show<T>(name: string, shown: (told: T) => ComponentChildren) {
    const source = sources[name];
    if (source === undefined) throw new TypeError(`no source ${name}`);
    if ('told' in source) return shown(source.told as T);
    return <p class="notice">Not shown: {source.problem}</p>;
  }
  return (
    <Frame {...page} rights={given.rights} status={told<Status>('status')}>
      {page.view({ ...given, told, show })}
    </Frame>
  );
}

type FrameProps = RenderableProps<
  Pick<Page, 'title'> & { path?: string; rights: Rights; status?: Status | undefined }
>;
export const Frame = ({ title, path: at, rights, status, children }: FrameProps) => (
  <>
    <a class="skip" href="#main">
      To the content
    </a>
    <header>
      {status ? strip(status) : <strong>MDX gateway</strong>}
      {ways(
        'Pages',
        pagesFor(rights).map(({ path, title }) => [path, title, path === at]),
      )}
    </header>
    <main id="main" tabIndex={-1}>
      <h1>{title}</h1>
      {children}
    </main>
  </>
);

const health = (isGood: boolean) => (isGood ? 'good' : 'bad');

function strip(status: Status) {
  const { engines, redis, purges_pending: pending, queue, memory } = status;
  const items: readonly Fact[] = [
    ['Engines', `${engines.up} of ${engines.of} up`, health(engines.up >= engines.of)],
    redis === 'off' ? ['Redis', 'not used'] : ['Redis', redis, health(redis === 'up')],
    ['Purges pending', count(pending), health(pending === 0)],
    ['Lease age', duration(status.lease_age_ms || null)],
    ['Queue', ofLimit(queue.waiting, queue.limit), health(queue.waiting <= 0.8 * queue.limit)],
    ['Memory', `${size(memory.bytes)} of ${size(memory.limit_bytes)}`],
  ];
  return (
    <div class="strip">
      <strong>MDX gateway</strong>
      {facts(items, 'states')}
      <p class="where">
        {status.version} · gateway {status.gateway.slice(0, 6)}
        {status.processes > 1 && `, process ${status.process}, one of ${status.processes}`}
        {!status.complete && ', some did not answer'} · {time(status.at)} · {status.user}
      </p>
    </div>
  );
}
