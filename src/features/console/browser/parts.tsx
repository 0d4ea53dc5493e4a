import type { ComponentChildren, InputHTMLAttributes } from 'preact';
import type { Reasons } from './json.ts';
import type { PageView } from './page.ts';
import { count } from '../../../common/words.ts';

type Way = readonly [href: string, title: string, isHere: boolean];
export const ways = (label: string, all: readonly Way[]) => (
  <nav aria-label={label}>
    {all.map(([href, title, isHere]) => (
      <a href={href} aria-current={isHere ? 'page' : undefined}>
        {title}
      </a>
    ))}
  </nav>
);

/** Time by the clock of the reader; the server does not know that clock, and says UTC. */
export function moment(iso: string): string {
  if (typeof document === 'undefined') return `${iso.slice(0, 19).replace('T', ' ')} UTC`;
  const at = new Date(iso);
  const time = at.toLocaleTimeString('en-GB');
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? time : `${at.toLocaleDateString('en-CA')} ${time}`;
}

export const time = (at: string | null) =>
  at && (
    <time dateTime={at} title={at}>
      {moment(at)}
    </time>
  );
export const ofLimit = (used: number, limit: number) => `${count(used)} of ${count(limit)}`;
export const code = (text: string) => <code>{text}</code>;

export type Column<Row> = ReturnType<typeof col<Row, keyof Row>>;
/** @param show how a cell is shown. @param sort word by which rows are sorted */
export const col = <Row, Name extends keyof Row>(
  title: string,
  name: Name,
  show: (value: Row[Name], row: NoInfer<Row>) => ComponentChildren = (value) =>
    value as ComponentChildren,
  sort?: string,
  kind?: 'figure',
) => ({ title, sort, kind, cell: (row: Row) => show(row[name], row) });
export const figure: typeof col = (title, name, show, sort) =>
  col(title, name, show, sort, 'figure');

/** @param sorted the word in force, and the address under which another one is */
export const table = <Row,>(
  caption: string,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  none: string,
  sorted?: { readonly by: string | undefined; readonly href: (sort: string) => string },
) => (
  // Wide tables scroll by themselves, by keys too.
  <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
    <table>
      <caption>{caption}</caption>
      <thead>
        <tr>
          {columns.map(({ title, sort, kind }) => (
            <th
              scope="col"
              class={kind}
              aria-sort={sort && sort === sorted?.by ? 'descending' : undefined}
            >
              {sort && sorted ? <a href={sorted.href(sort)}>{title}</a> : title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            {columns.map(({ cell, kind }) => (
              <td class={kind}>{cell(row)}</td>
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

export function meaningOf(view: PageView, outcome: string, reason: string): string {
  const { reasons = [] } = view.told<Reasons>('reasons') ?? {};
  const isOne = (row: (typeof reasons)[number]) =>
    row.word === reason && (row.outcome === 'gateway') === (outcome === 'gateway');
  const { meaning = '', remedy = '' } = reasons.find(isOne) ?? {};
  return `${meaning} ${remedy}`.trim();
}

export const marked = (text: ComponentChildren, isWrong: boolean) => (
  <span class={isWrong ? 'problem' : undefined}>{text}</span>
);

export const outcomeIn = (outcome: string, { reason }: { readonly reason: string }) => (
  <span class={`outcome ${outcome}`}>
    {outcome}
    {reason !== '' && <span class="reason"> {reason}</span>}
  </span>
);

export type Fact = readonly [name: string, value: ComponentChildren, kind?: string];
export const facts = (rows: readonly Fact[], kind = 'facts') => (
  <dl class={kind}>
    {rows.map(([name, value, health]) => (
      <div class={health}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

export type Typed = Readonly<Record<string, string>>;
/** Reads a form by names, and the pressed button. All but texts of several lines is trimmed. */
export const submitted = (use: (typed: Typed) => unknown) => (event: SubmitEvent) => {
  event.preventDefault();
  const form = event.currentTarget as HTMLFormElement;
  const isText = (name: string) => form.elements.namedItem(name) instanceof HTMLTextAreaElement;
  const typed = Array.from(new FormData(form, event.submitter), ([name, given]) => {
    const text = String(given);
    return [name, isText(name) ? text : text.trim()] as const;
  });
  use(Object.fromEntries(typed));
};

type FieldProps = InputHTMLAttributes<HTMLInputElement> & { label: ComponentChildren };
export const Field = ({ label, ...input }: FieldProps) => (
  <label>
    {label}
    <input {...input} />
  </label>
);
