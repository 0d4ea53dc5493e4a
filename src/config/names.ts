/** Which names of users and projects can exist. */

const CONTROL = /\p{Cc}/u;

/** What `isUserName` asks for, in words for an error message. */
export const USER_NAME_RULE =
  'a user name: not empty, without colon and control characters, not beginning with #';

/**
 * A user name goes through Basic authentication, where a colon ends it and control characters are forbidden
 * (RFC 7617 §2), and through a password file of lines, where # begins a comment.
 */
export function isUserName(name: string): boolean {
  return /^[^#:][^:]*$/.test(name) && !CONTROL.test(name) && name.isWellFormed();
}

/** What `isProjectName` asks for, in words for an error message. */
export const PROJECT_NAME_RULE =
  'a project name: not empty, not . or .., without control characters';

/** A project is one segment of a request path (the interface document §4.3), so it can be no dot segment. */
export function isProjectName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !CONTROL.test(name) && name.isWellFormed();
}
