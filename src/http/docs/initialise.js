/* global SwaggerUIBundle */

// Not relative: a page that was opened with a password in its address could not fetch it.
const description = new URL('/openapi.json', location.origin).href;

/**
 * Only what changes nothing can be tried out, as the page says. clearCache takes GET too. XMLA needs an envelope, and a
 * GET there reaches the engine.
 */
const readsOnly = () => ({
  statePlugins: {
    spec: {
      wrapSelectors: {
        allowTryItOutFor: () => (_state, path, method) =>
          path === '/admin/explain' || (method === 'get' && !path.startsWith('/mdx/')),
      },
    },
  },
});

/** Shows examples of XML as they are: Swagger UI would make others up from their schemas, which only say that they are text. */
const writtenExamples = (system) => ({
  fn: {
    jsonSchema202012: {
      ...system.fn.jsonSchema202012,
      getXmlSampleSchema: (_schema, _config, example) => example,
    },
  },
});

/** An explanation is one of the Accept that comes with it, and is JSON in any case: that of no client is explained. */
const withoutAccept = (request) => {
  const { pathname } = new URL(request.url, location.origin);
  if (pathname === '/admin/explain') request.headers.accept = '*/*';
  return request;
};

SwaggerUIBundle({
  url: description,
  dom_id: '#docs',
  plugins: [readsOnly, writtenExamples],
  supportedSubmitMethods: ['get', 'post'],
  requestInterceptor: withoutAccept,
  validatorUrl: null,
  deepLinking: true,
  defaultModelsExpandDepth: 0,
});
