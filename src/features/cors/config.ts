import { duration, textKind } from '../../settings/kinds.ts';
import { key, list, section, type ValueOf } from '../../settings/setting.ts';

const ORIGIN = /^https?:\/\/(?:[a-z\d._-]{1,253}|\[[\da-f:.]+\])(?::\d+)?$/;
/** Origins are compared as text, so they must be serialized as in browsers (HTML). */
const isOrigin = (text: string) => ORIGIN.test(text) && URL.parse(text)?.origin === text;
const origin = textKind(
  'origin',
  'an origin as browsers send it, such as https://bi.example or http://localhost:3000: http:// or ' +
    'https:// and a host in lower case, a port only if it is not the usual one, nothing behind it; ' +
    'no patterns, not null',
  isOrigin,
  {
    hides: (text) => /[@?#]/.test(text),
    spelling: (text) => [URL.parse(text)?.origin ?? ''].find(isOrigin),
  },
);

export const cors = section({
  /** The origins whose pages may ask, exactly as browsers send them. docs/SECURITY.md says what it
   * means to list one. */
  origins: list(origin, []),
  /** How long a browser may remember that it may send requests. 0: it asks before each of them. */
  max_age: key(duration('1s', '1d', 'off'), '2h'),
});

export type CorsConfig = ValueOf<typeof cors>;
