import { onOrOff } from '../../settings/kinds.ts';
import { key, section } from '../../settings/setting.ts';

export const statistics = section({
  /** Whether the statements of queries are kept; they may hold personal data. At most 2,000
   * characters are kept of each of the 2,000 queries with statistics, in this process, and users of
   * auth.admins see them. */
  text: key(onOrOff, 'off'),
});
