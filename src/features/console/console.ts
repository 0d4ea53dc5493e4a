import type { RequestHandler } from 'express';
import type { Finding } from '../../common/finding.ts';
import type { Core, Feature, HourCounts } from '../feature.ts';
import type { SharedStatistics } from '../statistics/shared-statistics.ts';

/** Pages for administrators, viewers and purgers, and what they show of the gateway. */
export const operatorConsole = (
  core: Core,
  statistics: Pick<SharedStatistics, 'usage' | 'hour'>,
  findings: (hour: HourCounts) => Promise<readonly Finding[]>,
): Feature => ({
  async pages(runtime) {
    const { page } = await import('../../http/admin-page.ts');
    const { onlyMethods } = await import('../../http/answers.ts');
    const { createConsolePages, frontPage } = await import('./pages.ts');
    const { createConsole } = await import('./shown.ts');
    const metrics = core.metrics();
    const shown = createConsole({ ...core, ...runtime, statistics, findings, metrics });
    const { status, overview, system } = shown;
    const reads = onlyMethods('GET', 'HEAD');
    const pages = createConsolePages({ ...core, ...runtime, admin: { tell: runtime.tellAdmin } });
    return {
      routes: [
        ['/console', reads, pages],
        ['/', atRoot(reads), atRoot(frontPage)],
      ],
      admin: {
        '/admin/status': page({}, (_query, principal) => status(principal), true),
        '/admin/overview': page({}, overview),
        '/admin/system': page({}, system),
      },
      diagnosis: { status, overview, system },
    };
  },
});

const atRoot =
  (handler: RequestHandler): RequestHandler =>
  (request, response, next) =>
    request.path === '/' ? handler(request, response, next) : next();
