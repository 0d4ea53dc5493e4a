import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { GatewayError } from '../common/errors.ts';
import type { Principal } from '../common/principal.ts';
import { queryParameters } from './request-head.ts';

export interface AdminPage {
  /** Opens the page to users who may purge, too. */
  readonly toPurgers: boolean;
  /** @param target path and query of the request @throws GatewayError `bad-request` */
  readonly tell: (target: string, principal: Principal) => Promise<object>;
}

export interface AdminPages {
  /** Pages by their paths. Several may add members to one. */
  readonly admin?: Readonly<Record<string, AdminPage>>;
  /** Parts of GET /admin/diagnosis for a supporter, without statements. */
  readonly diagnosis?: Readonly<Record<string, (principal: Principal) => Promise<object>>>;
}

/** A word of a query. @param allowed completes the sentence "must be …" */
export const word = (allowed: string, is: (text: string) => boolean) =>
  z.string().refine(is, `must be ${allowed}`);

export const text = z.string().optional();
export const oneOf = <const Words extends readonly string[]>(words: Words) =>
  z.enum(words, `must be one of ${words.join(', ')}`);
export const whole = (least: number, most: number, usual: number, of = '') =>
  word(`a whole number${of} from ${least} to ${most}`, (text) => {
    const isWhole = /^(?:0|[1-9]\d*)$/.test(text);
    return isWhole && Number(text) >= least && Number(text) <= most;
  })
    .default(String(usual))
    .transform(Number);
export const moment = z.iso
  .datetime('must be a time of ISO 8601 in UTC, such as 2026-01-02T08:55:00.000Z')
  .transform(Date.parse);

export const USUAL_LIMIT = 100;
const LAST_OFFSET = 10_000;
export const PAGE = { limit: whole(1, 1000, USUAL_LIMIT), offset: whole(0, LAST_OFFSET, 0) };

export type Query<Words extends z.ZodRawShape> = z.output<z.ZodObject<Words>>;

export const page = <Words extends z.ZodRawShape>(
  words: Words,
  tell: (query: Query<Words>, principal: Principal) => Promise<object>,
  toPurgers = false,
): AdminPage => ({
  toPurgers,
  tell: (target, principal) => tell(readQuery({ url: target }, words), principal),
});

export function mergePages(all: readonly Readonly<Record<string, AdminPage>>[]) {
  const merged: Record<string, AdminPage> = {};
  for (const [path, one] of all.flatMap((pages) => Object.entries(pages))) {
    const { [path]: before } = merged;
    merged[path] = before ? joined(before, one) : one;
  }
  return merged;
}

const joined = (first: AdminPage, second: AdminPage): AdminPage => ({
  toPurgers: first.toPurgers && second.toPurgers,
  async tell(...asked) {
    const members = await Promise.all([first.tell(...asked), second.tell(...asked)]);
    return Object.assign({}, ...members) as object;
  },
});

export function readQuery<Words extends z.ZodRawShape>(
  request: Pick<IncomingMessage, 'url'>,
  words: Words,
): Query<Words> {
  const names = Object.keys(words);
  const given = Object.entries(queryParameters(request));
  const unknown = given.map(([name]) => name).filter((name) => !names.includes(name));
  if (unknown.length > 0) {
    const list = names.join(', ').replace(/, (\S+)$/, ' and $1') || 'none';
    const allowed = `${names.length === 1 ? 'is' : 'are'} ${list}`;
    throw refused(`${unknown.join(', ')} is no query parameter here; allowed ${allowed}`);
  }
  const repeated = given.find(([, value]) => typeof value !== 'string');
  if (repeated !== undefined) throw refused(`${repeated[0]} is given more than once`);
  const read = z.object(words).safeParse(Object.fromEntries(given));
  if (read.success) return read.data;
  throw refused(
    read.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`).join('; '),
  );
}

const refused = (why: string) =>
  new GatewayError('bad-request', `The query is refused: ${why.replace(/\.$/, '')}.`);
