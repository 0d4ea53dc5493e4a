/** What several pages are made of. */
import type { ComponentChildren } from 'preact';
import type { Reasons } from './json.ts';
import { address, type PageView, type Told } from './page.ts';
import { count } from '../../common/words.ts';

/** Shows what a source told, or why it did not. */
export function Shown<T>({
  of,
  children,
}: {
  of: Told<T>;
  children: (told: T) => ComponentChildren;
}) {
  if ('problem' in of) return <p class="notice">Not told: {of.problem}</p>;
  return <>{children(of.told)}</>;
}

/** By the clock of the person who reads it; of the server, which does not know that, in UTC. */
export function moment(iso: string): string {
  if (typeof document === 'undefined') return `${iso.slice(0, 19).replace('T', ' ')} UTC`;
  const at = new Date(iso);
  const time = at.toLocaleTimeString('en-GB');
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? time : `${at.toLocaleDateString('en-CA')} ${time}`;
}

export const Time = ({ at }: { at: string }) => (
  <time dateTime={at} title={at}>
    {moment(at)}
  </time>
);

export interface Column<Row> {
  readonly title: string;
  /** Of figures, which stand at the right. */
  readonly figure?: boolean;
  /** The word by which rows are sorted. */
  readonly sort?: string;
  cell(row: Row): ComponentChildren;
}

type Cell<Row> = Column<Row>['cell'];
export const col = <Row,>(title: string, cell: Cell<Row>, sort?: string): Column<Row> => ({
  title,
  cell,
  ...(sort && { sort }),
});
export const figure = <Row,>(title: string, cell: Cell<Row>, sort?: string): Column<Row> => ({
  ...col(title, cell, sort),
  figure: true,
});

/** @param sorted the word in force, and the address under which another one is */
export function Table<Row>({
  caption,
  rows,
  columns,
  none,
  sorted,
}: {
  caption: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  none: string;
  sorted?: { readonly by: string; readonly href: (sort: string) => string };
}) {
  const heading = ({ title, sort }: Column<Row>) =>
    sort === undefined || sorted === undefined ? title : <a href={sorted.href(sort)}>{title}</a>;
  return (
    // Wide ones scroll by themselves, by keys too.
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.title}
                scope="col"
                class={column.figure ? 'figure' : undefined}
                aria-sort={column.sort && column.sort === sorted?.by ? 'descending' : undefined}
              >
                {heading(column)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {columns.map((column) => (
                <td key={column.title} class={column.figure ? 'figure' : undefined}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {rows.length === 0 && (
            <tr>
              <td colSpan={columns.length}>{none}</td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

/** Where a page of rows stands among all, and the ways to the others. */
export function Paging({
  view,
  path,
  total,
  shown,
}: {
  view: PageView;
  path: string;
  total: number;
  shown: number;
}) {
  const offset = Number(view.query.get('offset') ?? 0);
  const limit = Number(view.query.get('limit') ?? PAGE_SIZE);
  const to = (start: number) =>
    address(path, view.query, { offset: start > 0 ? String(start) : undefined });
  return (
    <nav class="paging" aria-label="Further rows">
      {offset > 0 && <a href={to(Math.max(0, offset - limit))}>Newer or larger</a>}
      <span>
        {shown === 0 ? 'None' : `${count(offset + 1)} to ${count(offset + shown)}`} of{' '}
        {count(total)}
      </span>
      {offset + shown < Math.min(total, LAST_OFFSET + limit) && (
        <a href={to(offset + limit)}>Further</a>
      )}
    </nav>
  );
}
export const PAGE_SIZE = 100;
/** As far as /admin tells rows. */
const LAST_OFFSET = 10_000;

/** What the words of Cache-Status mean. Asked once: it is of the program. */
export const REASONS = { reasons: '/admin/reasons' } as const;

/** What a word means, and what an operator can do; '' where that is not told. */
export function meaningOf(view: PageView, outcome: string, reason: string): string {
  const reasons = view.source<Reasons>('reasons');
  if ('problem' in reasons) return '';
  const isOne = (row: Reasons['reasons'][number]) =>
    row.word === reason && (row.outcome === 'gateway') === (outcome === 'gateway');
  const { meaning = '', remedy = '' } = reasons.told.reasons.find(isOne) ?? {};
  return `${meaning} ${remedy}`;
}

export const Outcome = ({ outcome, reason }: { outcome: string; reason: string }) => (
  <span class={`outcome ${outcome}`}>
    {outcome}
    {reason !== '' && <span class="reason"> {reason}</span>}
  </span>
);

export function Facts({ rows }: { rows: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
