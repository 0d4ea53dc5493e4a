import { engineTarget } from './engine-target.ts';

/** Where `engine.url` ends with `engine.clear: kylin`; what stands before is the server's base. */
const XMLA = /\/mdx\/xmla(?:_server)?(?:\/\{project\})?\/?$/;

/**
 * The path of the clearCache of MDX for Kylin (interface document §4.3).
 * @param template `engine.url`
 * @param project decoded; encoded again, canonically. Undefined for everything
 * @returns undefined for a name that no path can carry: a server that decodes it early would climb the path
 */
export function clearTarget(template: string, project: string | undefined): string | undefined {
  const base = engineTarget(template.replace(XMLA, ''), project, []).replace(/\/$/, '');
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
