/* global SwaggerUIBundle */

// Not relative: a page that was opened with a password in its address could not fetch it.
const description = new URL('/openapi.json', location.origin).href;

/**
 * Only what reads can be tried out. A browser adds the credentials that it remembers, so a page that is there to
 * be read would change roles, or empty every cache by one wrong click; clearCache does that by GET too. XMLA needs
 * an envelope, and a GET there reaches the engine.
 */
const readsOnly = () => ({
  statePlugins: {
    spec: {
      wrapSelectors: {
        allowTryItOutFor: () => (_state, path, method) =>
          method === 'get' && !path.startsWith('/mdx/'),
      },
    },
  },
});

SwaggerUIBundle({
  url: description,
  dom_id: '#docs',
  plugins: [readsOnly],
  supportedSubmitMethods: ['get'],
  validatorUrl: null,
  deepLinking: true,
  defaultModelsExpandDepth: 0,
});
