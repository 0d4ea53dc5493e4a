import { expect } from '@jest/globals';
import type { IncomingHttpHeaders } from 'node:http';

/** An error text without the id of its request, which must be the one that the head of the answer names. */
export function withoutRequestId(text: string, headers: IncomingHttpHeaders): string {
  const id = headers['x-request-id'];
  expect(id).toMatch(/^[!-~]{1,128}$/);
  const named = ` (request ${String(id)})`;
  expect(text).toContain(named);
  return text.replaceAll(named, '');
}
