/**
 * What a client hears when its login is refused. There is one text for every reason but throttling, so that
 * the answer does not tell which user names exist; and one for a login that could not be checked.
 */

/** The value of the header `WWW-Authenticate` (RFC 9110 §11.6.1; the parameter charset: RFC 7617 §2.1). */
export const BASIC_CHALLENGE = 'Basic realm="mdx-gateway", charset="UTF-8"';

/** For a missing header, another scheme, malformed credentials, an unknown user and a wrong password. */
export const LOGIN_REFUSED_TEXT =
  'A valid user name and password are needed (HTTP Basic authentication).';

/** For the reason `throttled`, whether or not the password was right. */
export const LOGIN_THROTTLED_TEXT = 'Too many failed logins. Try again later.';

/** For the reason `unavailable`: nothing was said of the password. */
export const LOGIN_UNCHECKED_TEXT =
  'The login could not be checked, because the engine that knows the users did not say. Try again later.';
