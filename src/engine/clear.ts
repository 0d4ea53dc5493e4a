import type { EngineClear } from '../cache/purge/purge.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import { foldObjectName } from '../common/fold-case.ts';
import type { EngineConfig } from '../config/config.ts';
import { serviceAuthorization } from '../proxy/forwarded.ts';
import { reasonOf } from '../proxy/upstream.ts';
import type { ClearCall } from './http-engine.ts';
import { askOnce, inTime, isPlain, LongAnswer } from './own-questions.ts';
import { engineFailure, engineTarget, type Replica } from './replicas.ts';

const BAD_NAME = 'It was not asked: the name of the project cannot stand in a path.';

/**
 * The clear operation of one engine (`engine.clear`).
 * @param replicas as they are configured, without kept connections; none where the engine has no such operation
 * @param emit told why an upstream did not clear its cache
 */
export function createClearCalls(
  config: Pick<EngineConfig, 'login' | 'service' | 'timeout'>,
  replicas: readonly Replica[],
  emit: Emit,
) {
  /**
   * What clears the engine's own cache: one call for each replica.
   * @param project decoded; undefined for everything
   * @param authorization of the user who wants it, for `engine.login: forward`; undefined without one: then no call
   */
  return (project: string | undefined, authorization: string | undefined): readonly ClearCall[] => {
    const login =
      config.login === 'forward'
        ? authorization
        : config.service && serviceAuthorization(config.service);
    if (config.login === 'forward' && login === undefined) return [];
    const headers = { accept: '*/*', ...(login !== undefined && { authorization: login }) };
    return replicas.map(({ url, upstream }): ClearCall => {
      const path = clearTarget(url, project);

      /** @returns undefined when the cache is cleared, else one sentence */
      async function ask(): Promise<string | undefined> {
        if (path === undefined) return BAD_NAME;
        const { head, body } = await inTime(config.timeout, [], (signal) =>
          askOnce(upstream, { method: 'GET', path, headers }, signal),
        );
        const coding = head.headers['content-encoding'];
        return readClearAnswer({ status: head.status, coding, body }, project);
      }

      const tell = (reason: GatewayError['reason'], error: unknown) =>
        emit({ type: 'engine-failed', project: project ?? '', replica: url, reason, error });
      return {
        id: JSON.stringify([upstream.origin, path, login ?? null, upstream.certificate]),
        async make(): Promise<EngineClear> {
          try {
            const why = await ask();
            if (why === undefined) return { replica: url, ok: true };
            tell('engine-not-cleared', new GatewayError('engine-not-cleared', why));
            return { replica: url, ok: false, why, ...(path === undefined && { called: false }) };
          } catch (error) {
            const { reason } = engineFailure(error);
            tell(reason, reasonOf(error));
            return { replica: url, ok: false, why: whyNoAnswer(reason, error) };
          }
        },
      };
    });
  };
}

function whyNoAnswer(reason: string, error: unknown): string {
  if (error instanceof LongAnswer) return 'Its answer is too long for that of clearCache.';
  if (reason === 'engine-timeout') return 'It did not answer in time.';
  return 'It cannot be reached, or broke off its answer.';
}

/** Where `engine.url` ends with `engine.clear: kylin`; what stands before is the server's base. */
const XMLA = /\/mdx\/xmla(?:_server)?(?:\/\{project\})?\/?$/;

/**
 * The path of the clearCache of MDX for Kylin (interface document §4.3).
 * @param template `engine.url`
 * @param project decoded; encoded again, canonically. Undefined for everything
 * @returns undefined for a name that no path can carry: a server that decodes it early would climb the path
 */
export function clearTarget(template: string, project: string | undefined): string | undefined {
  const base = engineTarget(template.replace(XMLA, ''))(project, []).replace(/\/$/, '');
  if (project === undefined) return `${base}/mdx/xmla/clearCache`;
  return canStandInPath(project)
    ? `${base}/mdx/xmla/${encodeURIComponent(project)}/clearCache`
    : undefined;
}

/** Servlet containers leave away what follows a semicolon. */
function canStandInPath(name: string): boolean {
  if (name === '' || /\p{Cc}/u.test(name) || !name.isWellFormed()) return false;
  const parts = name.split(/[/\\]/).map((part) => part.split(';', 1)[0] ?? '');
  return parts.every((part) => part !== '.' && part !== '..');
}

/** How much of an unexpected text is shown (characters). */
const SHOWN = 120;
const DONE = 'Cache has been cleared.';

/**
 * Reads the answer of MDX for Kylin to its clearCache. Only the words of the interface document §4.3 say that it was
 * done, alone or after the name of the project, in any letter case and with any white space; a wrong password is
 * answered with status 200 and a SOAP Fault.
 * @param answer.body without content coding
 * @param project whose cache was to be cleared, decoded; undefined for everything
 * @returns undefined when the cache is cleared, else one sentence that says what came instead. It never says
 *   "cleared", so that no script takes it for the words it looks for
 */
export function readClearAnswer(
  answer: {
    readonly status: number;
    readonly coding: string | undefined;
    readonly body: Buffer;
  },
  project: string | undefined,
): string | undefined {
  const { status } = answer;
  if (status === 401 || status === 403 || status === 407) {
    return `It refused the login (status ${status}).`;
  }
  if (status >= 300 && status < 400) {
    return `It answered with status ${status}, a redirect, which is not followed.`;
  }
  if (status !== 200) return `It answered with status ${status}.`;
  if (!isPlain(answer.coding)) {
    return 'It answered in a content coding that is not known.';
  }
  const text = answer.body.toString('utf8').trim();
  if (/<(?:[\w.-]+:)?Fault[\s>]/.test(text)) {
    return 'It answered with a SOAP Fault, as to a wrong password.';
  }
  if (/^<(?:[!?]|html\b|(?:[\w.-]+:)?Envelope\b)/i.test(text)) {
    return 'It answered with a document instead of the words of clearCache.';
  }
  const done = project === undefined ? [DONE] : [DONE, `${project} ${DONE}`];
  return done.map(folded).includes(folded(text)) ? undefined : otherText(text);
}

function folded(text: string): string {
  return foldObjectName(text).replaceAll(/\s+/g, ' ');
}

function otherText(text: string): string {
  if (text === '') return 'It answered with an empty text.';
  const shown = text.slice(0, SHOWN).replace(/[^\p{L}\p{N}\p{P}\p{S} ]+/gu, ' ');
  if (/cleared/i.test(shown)) return 'It answered with other words than those of clearCache.';
  return `It answered with another text: ${JSON.stringify(shown)}.`;
}
