import { API_OTHER_PATHS, API_SHARED_ANSWERS } from './api-answers.ts';
import {
  CLEAR_CACHE_PATHS,
  CLEAR_CACHE_SCHEMAS,
  CLEAR_CACHE_SHARED_ANSWERS,
} from './clear-cache-paths.ts';
import { DATASET_PATHS, DATASET_SCHEMAS } from './dataset-paths.ts';
import { EXPLAIN_PATHS, EXPLAIN_SCHEMAS, EXPLAIN_SHARED_ANSWERS } from './explain-paths.ts';
import { FAILURE_SCHEMAS } from './failures.ts';
import { SHARED_HEADERS } from './headers.ts';
import type { OpenApiDocument } from './openapi-types.ts';
import {
  OPERATION_PATHS,
  OPERATION_SCHEMAS,
  OTHER_PATHS,
  PAGE_SHARED_ANSWERS,
} from './operation-paths.ts';
import { PURGES_PATHS, PURGES_SCHEMAS, PURGES_SHARED_ANSWERS } from './purges-paths.ts';
import { ROLE_PATHS, ROLE_SCHEMAS } from './role-paths.ts';
import { XMLA_OTHER_PATHS, XMLA_PATHS, XMLA_SHARED_ANSWERS } from './xmla-paths.ts';

const ABOUT = `A caching reverse proxy in front of an OLAP engine that speaks XMLA, with an API for roles and datasets.

**Login.** Every operation but \`/health/live\` needs HTTP Basic credentials. Every known user may query and read; those
in \`auth.admins\` may change roles and datasets, clear the cache, and ask what it holds and who cleared it; those in \`auth.purgers\` may
clear the cache.

**Failures.** Each has a status from 400 on and a word of a closed list. The role and dataset API tells it as
\`{"status":1,"data":"failure","errorMesg":"[word] text"}\`, XMLA as a SOAP Fault, clearCache as text or JSON, and every
other page as \`{"error":"word","message":"text"}\`.

**Heads.** On every path, a head with several headers \`Host\` or an invalid one is answered by 400 (\`bad-request\`). What is
not valid HTTP/1.1 is answered by 400, a head that is too long by 431, one that does not end in time by 408: as text, since its path is
not known yet. The connection ends then.

**Methods.** HEAD is answered as GET without the body, except by clearCache. Methods that are not listed are answered by
405 with \`Allow\`; the role and dataset API answers OPTIONS. The answers to methods and paths that are not listed stand in
\`x-other-methods\` of each path and \`x-other-paths\` of the document. A slash at the end of a path changes nothing.

**Changes.** A request that changes something or clears the cache is refused when a browser says that another site made it
send that. Its answer comes when no gateway that shares the cache answers from what it made stale.

**Roles and datasets of another server.** With \`storage.driver: http\` the role and dataset API checks login and
permission, and passes the request on; then its other answers are those of that server, its failures too.`;

/**
 * The whole HTTP surface in OpenAPI 3.1. Words, statuses and meanings of failures come from src/reasons.ts and
 * src/errors.ts; the rest is written by hand, and every answer in the tests is compared with it.
 */
export function openApiDocument(facts: { readonly version: string }): OpenApiDocument {
  return {
    openapi: '3.1.0',
    info: {
      title: 'MDX gateway',
      version: facts.version,
      description: ABOUT,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'This gateway' }],
    security: [{ basic: [] }],
    tags: [
      { name: 'Roles', description: 'Roles and who is in them.' },
      { name: 'Datasets', description: 'Datasets: export, import, update, list.' },
      {
        name: 'Cache',
        description:
          'Dropping what a data load made stale, who did, and why a query is not answered from the cache.',
      },
      { name: 'XMLA', description: 'Queries of BI tools.' },
      { name: 'Operation', description: 'For those who run the gateway, and this document.' },
    ],
    paths: {
      ...ROLE_PATHS,
      ...DATASET_PATHS,
      ...CLEAR_CACHE_PATHS,
      ...EXPLAIN_PATHS,
      ...PURGES_PATHS,
      ...XMLA_PATHS,
      ...OPERATION_PATHS,
    },
    components: {
      securitySchemes: {
        basic: {
          type: 'http',
          scheme: 'basic',
          description: 'A user of the password file that `auth.users` names.',
        },
      },
      schemas: {
        ...ROLE_SCHEMAS,
        ...DATASET_SCHEMAS,
        ...CLEAR_CACHE_SCHEMAS,
        ...EXPLAIN_SCHEMAS,
        ...PURGES_SCHEMAS,
        ...OPERATION_SCHEMAS,
        ...FAILURE_SCHEMAS,
      },
      responses: {
        ...API_SHARED_ANSWERS,
        ...CLEAR_CACHE_SHARED_ANSWERS,
        ...EXPLAIN_SHARED_ANSWERS,
        ...PURGES_SHARED_ANSWERS,
        ...XMLA_SHARED_ANSWERS,
        ...PAGE_SHARED_ANSWERS,
      },
      headers: SHARED_HEADERS,
    },
    'x-other-paths': [
      { prefix: '/api', responses: API_OTHER_PATHS },
      { prefix: '/mdx/xmla', responses: XMLA_OTHER_PATHS },
      { prefix: '', responses: OTHER_PATHS },
    ],
  };
}
