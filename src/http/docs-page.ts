import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import express, { type RequestHandler, type Router } from 'express';
import swaggerUiFolder from 'swagger-ui-dist/absolute-path.js';

const OWN_FILES = join(import.meta.dirname, 'docs');
const PACKAGE = new URL('../../package.json', import.meta.url);

export const PAGE_HEADERS = {
  // Loads nothing from elsewhere; Swagger UI draws its arrows as data: images.
  'content-security-policy': [
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'",
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
};

export function openApiPage(): RequestHandler {
  return page('application/json', async () => {
    const { version } = JSON.parse(await readFile(PACKAGE, 'utf8')) as { version: string };
    const text = await readFile(join(OWN_FILES, 'openapi.json'), 'utf8');
    const document = JSON.parse(text) as { info: object };
    const info = { ...document.info, version };
    return Buffer.from(JSON.stringify({ ...document, info }, undefined, 2));
  });
}

export function docsPages(): Router {
  const router = express.Router({ caseSensitive: true });
  const files = {
    '/': join(OWN_FILES, 'page.html'),
    '/initialise.js': join(OWN_FILES, 'initialise.js'),
    '/swagger-ui-bundle.js': join(swaggerUiFolder(), 'swagger-ui-bundle.js'),
    '/swagger-ui.css': join(swaggerUiFolder(), 'swagger-ui.css'),
  };
  for (const [path, file] of Object.entries(files)) {
    const handler = page(extname(file), () => readFile(file));
    router.get(path, handler);
  }
  return router;
}

function page(type: string, make: () => Promise<Buffer>): RequestHandler {
  let body: Buffer | undefined;
  return async (_request, response) => {
    body ??= await make();
    const etag = `"${hash('sha256', body, 'base64url')}"`;
    response
      .set({ ...PAGE_HEADERS, etag })
      .type(type)
      .send(body);
  };
}
