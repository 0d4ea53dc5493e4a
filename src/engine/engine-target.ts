import { foldCase } from '../common/fold-case.ts';
import { parameterName, type QueryParameter } from '../proxy/forwarded.ts';

/** Whether a query holds a parameter of this name (lower case), however it is spelt. */
export function namesParameter(search: string, name: string): boolean {
  return search.split('&').some((piece) => foldCase(parameterName(piece)) === name);
}

/** The parameters in the one order that a key needs: by name; equal names keep their order. */
export function sortedQuery(parameters: readonly QueryParameter[]): readonly QueryParameter[] {
  const named = parameters.map((parameter) => [parameterName(parameter), parameter] as const);
  return named.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, parameter]) => parameter);
}

/**
 * The path and query under which an engine is asked.
 * @param project decoded; encoded again, canonically. Without one the segment `{project}` is left out
 */
export type EngineTarget = (
  project: string | undefined,
  parameters: readonly QueryParameter[],
) => string;

/** @param template `engine.url`, which may hold `{project}` as a whole path segment */
export function engineTargetOf(template: string): EngineTarget {
  const { pathname, search } = new URL(template.replace('{project}', PLACE));
  const own = search.slice(1).split('&').filter(isGiven);
  const withoutProject = pathname.replace(`/${PLACE}`, '');
  return (project, parameters) => {
    const path =
      project === undefined
        ? withoutProject
        : pathname.replace(PLACE, () => encodeURIComponent(project));
    const all = [...own, ...parameters.filter(isGiven)].join('&');
    return (path === '' ? '/' : path) + (all === '' ? '' : `?${all}`);
  };
}

/** An {@link EngineTarget} that is needed once. */
export function engineTarget(
  template: string,
  ...asked: Parameters<EngineTarget>
): ReturnType<EngineTarget> {
  return engineTargetOf(template)(...asked);
}

function isGiven(parameter: QueryParameter): boolean {
  return parameter !== '';
}

/** Whether the engine is told the project of the request path. */
export function tellsProject(template: string): boolean {
  return template.includes('{project}');
}

/** Survives `new URL`, which would encode the braces. */
const PLACE = '__project__';

/** Scheme, host and port of the engine. */
export function engineOrigin(template: string): URL {
  return new URL(new URL(template.replace('{project}', PLACE)).origin);
}
