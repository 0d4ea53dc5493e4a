import { onOrOff } from '../../settings/kinds.ts';
import { key, section } from '../../settings/setting.ts';

export const statistics = section({
  /** Whether the statements of queries are kept, which may hold personal data: at most 2,000
   * characters of each of the 2,000 queries with statistics, in this process; users of auth.admins
   * see them. */
  text: key(onOrOff, 'off'),
});
