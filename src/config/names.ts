/** Which names of users and projects can exist. */

const CONTROL = /\p{Cc}/u;

/** What `isLoginName` asks for, in words for an error message. */
export const LOGIN_NAME_RULE = 'a name without colon and control characters, not empty';

/** What Basic authentication can carry: a colon ends the name, control characters are forbidden (RFC 7617 §2). */
export function isLoginName(name: string): boolean {
  return name !== '' && !name.includes(':') && !CONTROL.test(name) && name.isWellFormed();
}

const LONGEST_USER_NAME = 255;

/** What `isUserName` asks for, in words for an error message. */
export const USER_NAME_RULE =
  'a user name: 1 to 255 bytes without colon and control characters, ' +
  'no white space at either end, not beginning with #';

/** A login name that can stand in a password file, where # begins a comment and htpasswd sets the length. */
export function isUserName(name: string): boolean {
  return (
    isLoginName(name) &&
    !name.startsWith('#') &&
    name.trim() === name &&
    new TextEncoder().encode(name).byteLength <= LONGEST_USER_NAME
  );
}

/** What `isProjectName` asks for, in words for an error message. */
export const PROJECT_NAME_RULE =
  'a project name: not empty, not . or .., without control characters';

/** A project is one segment of a request path (the interface document §4.3), so it can be no dot segment. */
export function isProjectName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !CONTROL.test(name) && name.isWellFormed();
}
