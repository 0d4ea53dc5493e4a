/** A login of the gateway's own as a header Authorization (RFC 7617). */
export function serviceAuthorization(service: {
  readonly name: string;
  readonly password: string;
}): string {
  return `Basic ${Buffer.from(`${service.name}:${service.password}`).toString('base64')}`;
}

/**
 * With a login of the gateway's own, a 401 of the upstream is not a question to the client, whose password is
 * not the one that was refused.
 */
export function refusedLogin(status: number, login: 'forward' | 'service' | 'none'): boolean {
  return login !== 'forward' && (status === 401 || status === 407);
}
