import { GATEWAY_REASONS } from '../reasons.ts';
import { faults, faultsOrTexts } from './failures.ts';
import { XMLA_HEADERS } from './headers.ts';
import type {
  Answer,
  Answers,
  MediaType,
  Operation,
  Parameter,
  Paths,
  RequestBody,
} from './openapi-types.ts';
import { shared } from './shared-answers.ts';

export const project: Parameter = {
  name: 'project',
  in: 'path',
  description:
    'The name of the project, percent-encoded; `%2F` is part of the name. Not empty, not `.` or `..`, without ' +
    'control characters, at most 255 bytes of UTF-8.',
  required: true,
  schema: { type: 'string', minLength: 1 },
  example: 'learn',
};

const envelope = (body: string) =>
  '<?xml version="1.0" encoding="UTF-8"?>\n' +
  '<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body>\n' +
  `${body}\n</Body></Envelope>`;

const DISCOVER = envelope(
  '<Discover xmlns="urn:schemas-microsoft-com:xml-analysis">\n' +
    '  <RequestType>MDSCHEMA_CUBES</RequestType>\n' +
    '  <Restrictions><RestrictionList/></Restrictions>\n' +
    '  <Properties><PropertyList><Catalog>learn</Catalog></PropertyList></Properties>\n' +
    '</Discover>',
);
const EXECUTE = envelope(
  '<Execute xmlns="urn:schemas-microsoft-com:xml-analysis">\n' +
    '  <Command><Statement>SELECT [Measures].MEMBERS ON COLUMNS FROM [Sales]</Statement></Command>\n' +
    '  <Properties><PropertyList><Catalog>learn</Catalog><Format>Multidimensional</Format></PropertyList></Properties>\n' +
    '</Execute>',
);

const xml: MediaType = {
  schema: { type: 'string' },
  examples: {
    discover: { summary: 'What cubes are there?', value: DISCOVER },
    execute: { summary: 'A query', value: EXECUTE },
  },
};

export const requestBody: RequestBody = {
  description:
    'A SOAP 1.1 envelope with one Discover or Execute, at most `limits.body` long; it may be compressed with gzip ' +
    'or deflate. What does not have the known shape of XMLA reaches the engine as it came.',
  required: true,
  content: { 'text/xml': xml, 'application/xml': xml },
};

export const soapAction: Parameter = {
  name: 'SOAPAction',
  in: 'header',
  description: 'The method; quotes are optional, and so is the header.',
  required: false,
  schema: { type: 'string' },
  example: '"urn:schemas-microsoft-com:xml-analysis:Execute"',
};

/** Failures of the gateway, and whatever the engine sends. */
const passed = shared('Xmla', {
  ...faults(
    [
      'bad-request',
      'unauthenticated',
      'forbidden',
      'identity-refused',
      'too-big',
      'content-coding',
      'throttled',
      'internal',
      'engine-unreachable',
      'engine-login',
      'overloaded',
      'session-unavailable',
      'purge-failed',
      'engine-timeout',
    ],
    true,
  ),
  default: {
    description: 'An answer of the engine, with the status, the headers and the body that it sent.',
    headers: XMLA_HEADERS,
    content: { '*/*': {} },
  },
});

const refused = shared('XmlaOtherMethod', faults(['method-not-allowed'], true));

/** Of `clearCache` in another letter case, unless XML comes with it: engines may answer that by 200. */
const misspelt = shared('XmlaMisspeltClearCache', faultsOrTexts(['not-found'], true));

export const XMLA_SHARED_ANSWERS: Readonly<Record<string, Answer>> = {
  ...passed.responses,
  ...refused.responses,
  ...misspelt.responses,
};

/** The status with which engines send it. */
const { 200: unknownSession } = faults(['unknown-session'], true);

const answered: Answers = {
  200: {
    description:
      'The answer of the engine, as it came or from the cache. Engines send a `Fault` with this status too, and so ' +
      `does the gateway for one word.\n\n\`unknown-session\`: ${GATEWAY_REASONS['unknown-session']}`,
    headers: XMLA_HEADERS,
    content: {
      'text/xml': {
        schema: { type: 'string' },
        examples: unknownSession?.content?.['text/xml']?.examples ?? {},
      },
      'application/xml': { schema: { type: 'string' } },
      '*/*': {},
    },
  },
  ...passed.refs,
};

const ABOUT =
  'XMLA 1.1 over SOAP. Repeated queries are answered from memory or Redis when the request, the rights of its user and ' +
  'the state of the cache allow that; everything else goes to the engine and back unchanged. `Cache-Status` says which ' +
  'of the two happened, and why. Failures of the gateway are SOAP Faults.';

const asking = (operationId: string, summary: string, more: Answers = {}): Operation => ({
  operationId,
  tags: ['XMLA'],
  summary,
  description: ABOUT,
  parameters: [soapAction],
  requestBody,
  responses: { ...answered, ...more },
});

const passing = (operationId: string, more: Answers = {}): Operation => ({
  operationId,
  tags: ['XMLA'],
  summary: 'Pass a request through to the engine',
  description:
    'GET, and every other method but POST, TRACE and CONNECT, goes to the engine as it is; some engines answer with ' +
    'a description of the service. Nothing of it is cached.',
  responses: { ...passed.refs, ...more },
});

const otherMethods: Answers = { ...refused.refs, ...passed.refs };

export const XMLA_PATHS: Paths = {
  '/mdx/xmla': {
    post: asking('queryXmla', 'Ask the engine'),
    get: passing('passThrough'),
    'x-other-methods': otherMethods,
  },
  '/mdx/xmla/{project}': {
    parameters: [project],
    post: asking('queryProjectXmla', 'Ask the engine about a project', misspelt.refs),
    get: passing('passProjectThrough', misspelt.refs),
    'x-other-methods': { ...otherMethods, ...misspelt.refs },
  },
};

/** Paths below /mdx/xmla that nobody serves. */
export const XMLA_OTHER_PATHS: Answers = faultsOrTexts(['bad-request', 'not-found'], false);
