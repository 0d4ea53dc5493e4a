import type { Request, RequestHandler, Response } from 'express';
import { hash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Login, Permissions } from '../../auth/authenticator.ts';
import { type Principal, principalOf } from '../../common/principal.ts';
import { asAnsweredError, sendJson, sendWhole } from '../../http/answers.ts';
import { GatewayError } from '../../common/errors.ts';
import type { Emit } from '../../common/events.ts';
import type * as Build from './build.ts';
import type { Admin } from '../../http/admin.ts';
import { PAGE_HEADERS } from '../../http/docs-page.ts';
import { nameRequest, refuseDelegation } from '../../http/request-head.ts';

/** Addresses of the files that a page names; the script is '' for none. */
export type Assets = Readonly<Record<'script' | 'style' | 'icon', string>>;
export type Rights = Readonly<ReturnType<Permissions['rightsOf']>>;
export type Told = { readonly told: unknown } | { readonly problem: string };
/** Answers by the last names of their paths. Undefined where nothing came. */
export type AllTold = Readonly<Record<string, Told | undefined>>;

interface Found {
  readonly isAllowed: boolean;
  /** Makes a whole document. @param tell is given paths below /admin */
  show(tell: (target: string) => Promise<Told>, assets: Assets): Promise<string>;
}

/** Makes HTML of what /admin tells, with the components of the browser. */
export interface FirstPaint {
  find(path: string, search: string, rights: Rights): Found | undefined;
  showProblem(text: string, rights: Rights, assets: Assets): string;
  showLinks(links: typeof LINKS, assets: Assets): string;
}

/** For people who know only the address of the gateway: its pages, and their use. */
const LINKS = {
  '/console': 'Console: how the cache does, why a request was slow, purges',
  '/docs': 'Documentation of the HTTP interface',
  '/health/ready': 'Health: whether engines, Redis and storage answer',
  '/metrics': 'Metrics, in the text format of Prometheus',
  '/mdx/xmla': 'XMLA, for Excel and other BI tools: no page',
};

/** Folder of the build; there is none beside the sources. */
const BUILT = join(import.meta.dirname, 'console');
/** The bundler does not follow this name: what is shipped has no bundler. */
const BUILDER = pathToFileURL(join(import.meta.dirname, 'build.ts')).href;
const FOR_EVER = 'private, max-age=31536000, immutable';
const FILES = [
  ['script', 'console.js', 'text/javascript'],
  ['style', 'console.css', 'text/css'],
  ['icon', 'icon.svg', 'image/svg+xml'],
] as const;

let loading: ReturnType<typeof load> | undefined;
/** Makes the files when the first page is asked for, and again where that failed. */
const loaded = () =>
  (loading ??= load().catch((error: unknown) => ((loading = undefined), Promise.reject(error))));

/** Serves /console for administrators, viewers and purgers; errors are pages too. */
export function createConsolePages(options: {
  login: Login;
  permissions: Pick<Permissions, 'rightsOf'>;
  admin: Pick<Admin, 'tell'>;
  newId: () => string;
  emit: Emit;
}): RequestHandler {
  const { login, permissions, admin, newId, emit } = options;
  async function page(request: Request, principal: Principal): Promise<string> {
    const { firstPaint, assets } = await loaded();
    const rights = permissions.rightsOf(principal);
    if (!Object.values(rights).includes(true)) {
      const lists = 'auth.admins, auth.viewers and auth.purgers';
      throw new GatewayError('forbidden', `${principal.name} is in none of ${lists}.`);
    }
    const path = request.baseUrl + request.path;
    const [, search = ''] = request.originalUrl.split(/\?(.*)/s);
    const found = firstPaint.find(path, search, rights);
    if (found === undefined) throw new GatewayError('not-found', `There is no page ${path}.`);
    if (!found.isAllowed) {
      throw new GatewayError('forbidden', `${principal.name} may not see this page.`);
    }
    return found.show(async (target) => {
      try {
        // The browser will have it so.
        return { told: JSON.parse(JSON.stringify(await admin.tell(target, principal))) };
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error;
        return { problem: error.message };
      }
    }, assets);
  }

  return async (request, response) => {
    const { files, firstPaint, assets } = await loaded();
    const file = files.get(request.baseUrl + request.path);
    if (file !== undefined) {
      response.set({ ...PAGE_HEADERS, 'cache-control': FOR_EVER }).type(file.type);
      return void response.send(file.bytes);
    }
    const id = nameRequest(request, response, newId);
    let principal = principalOf('');
    try {
      principal = await login(request, id);
      refuseDelegation(request.headers, '');
      send(response, await page(request, principal));
    } catch (error) {
      const { status, headers, message } = asAnsweredError(error, id, emit);
      const rights = permissions.rightsOf(principal);
      const html = firstPaint.showProblem(`${message} (request ${id})`, rights, assets);
      send(response, html, status, headers);
    }
  };
}

/** Answers `/`: links for people, JSON for programs. */
export const frontPage: RequestHandler = async (request, response) => {
  if (request.accepts('json', 'html') !== 'html') {
    return sendJson(response, { name: 'mdx-gateway', pages: LINKS });
  }
  const { firstPaint, assets } = await loaded();
  send(response, firstPaint.showLinks(LINKS, assets));
};

function send(
  response: Response,
  html: string,
  status = 200,
  headers: Record<string, string> = {},
): void {
  sendWhole(response, 'text/html; charset=utf-8', html, status, { ...PAGE_HEADERS, ...headers });
}

/** Shipped pages were built before; pages from sources are built now. */
async function load() {
  const read = (name: string) => [name, readFileSync(join(BUILT, name))] as const;
  const built: Readonly<Record<string, Uint8Array>> = existsSync(BUILT)
    ? Object.fromEntries(readdirSync(BUILT).map(read))
    : await ((await import(BUILDER)) as typeof Build).buildConsole();
  const bytesOf = (name: string) => Buffer.from(built[name] as Uint8Array);
  const found = FILES.map(([use, name, type]) => {
    const bytes = bytesOf(name);
    const digest = hash('sha256', bytes, 'hex').slice(0, 12);
    return { use, path: `/console/${name.replace('.', `-${digest}.`)}`, type, bytes };
  });
  const assets = Object.fromEntries(found.map(({ use, path }) => [use, path])) as Assets;
  const files = new Map(found.map((file) => [file.path, file]));
  const code = bytesOf('first-paint.js').toString('base64');
  const made = (await import(`data:text/javascript;base64,${code}`)) as { firstPaint: FirstPaint };
  return { files, assets, ...made };
}
