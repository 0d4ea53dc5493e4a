import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import express, { type RequestHandler, type Router } from 'express';
import swaggerUiFolder from 'swagger-ui-dist/absolute-path.js';
import { openApiDocument } from '../openapi/openapi.ts';

const OWN_FILES = new URL('./docs/', import.meta.url);
const PACKAGE = new URL('../../package.json', import.meta.url);

/** Nothing from elsewhere, and nothing written into the page; Swagger UI draws its arrows as data: images. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const SCRIPT = 'text/javascript; charset=utf-8';

const HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
};

/** `GET /openapi.json`: the interface in OpenAPI 3.1. */
export function openApiPage(): RequestHandler {
  return page('application/json', () => {
    const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8')) as { version: string };
    return JSON.stringify(openApiDocument({ version }), undefined, 2);
  });
}

/** The same for people, by Swagger UI: the page and what it loads, to be mounted at /docs. */
export function docsPages(): Router {
  return express
    .Router({ caseSensitive: true })
    .get('/', page('text/html; charset=utf-8', own('page.html')))
    .get('/initialise.js', page(SCRIPT, own('initialise.js')))
    .get('/swagger-ui-bundle.js', page(SCRIPT, ofSwagger('swagger-ui-bundle.js')))
    .get('/swagger-ui.css', page('text/css; charset=utf-8', ofSwagger('swagger-ui.css')));
}

function own(name: string): () => Promise<Buffer> {
  return () => readFile(new URL(name, OWN_FILES));
}

function ofSwagger(name: string): () => Promise<Buffer> {
  return () => readFile(join(swaggerUiFolder(), name));
}

/** Content that does not change while the gateway runs; it is made when it is first asked for. */
function page(
  contentType: string,
  make: () => string | Buffer | Promise<string | Buffer>,
): RequestHandler {
  let body: Buffer | undefined;
  let etag = '';
  return async (_request, response) => {
    if (body === undefined) {
      body = Buffer.from(await make());
      etag = `"${createHash('sha256').update(body).digest('base64url')}"`;
    }
    response.set({ ...HEADERS, 'content-type': contentType, etag }).send(body);
  };
}
