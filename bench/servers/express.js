/**
 * `node express.js PORT`: the smallest Express app that answers a POST, for the time that a start takes. In JavaScript,
 * so that no time goes into the removal of types.
 */

import { Buffer } from 'node:buffer';
import process from 'node:process';
import express from 'express';

const body = Buffer.alloc(2048, 'x');
const app = express();
app.post('/mdx/xmla', express.text({ type: 'text/xml' }), (_request, response) => {
  response.type('text/xml').send(body);
});
app.listen(Number(process.argv[2]), '127.0.0.1');
