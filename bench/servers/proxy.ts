/** `node proxy.ts PORT ENGINE_PORT`: http-proxy-middleware alone, with connections that are kept. */

import { Agent, createServer } from 'node:http';
import { createProxyMiddleware } from 'http-proxy-middleware';

const [port = '0', engine = '0'] = process.argv.slice(2);
const proxy = createProxyMiddleware({
  target: `http://127.0.0.1:${engine}`,
  changeOrigin: true,
  agent: new Agent({ keepAlive: true }),
});

createServer((request, response) => {
  void proxy(request, response);
}).listen(Number(port), '127.0.0.1');
