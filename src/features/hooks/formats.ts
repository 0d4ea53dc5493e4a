import { GatewayError } from '../../common/errors.ts';
import type { HookConfig } from './config.ts';

/** Texts of a message by their fields. @throws GatewayError `bad-request` where there is none */
type Text = (field: string) => string;

/** Projects that a message has purged. */
export interface PurgeRequest {
  readonly projects: readonly string[];
  /** When a signed message was made (wall clock); such a message counts once. */
  readonly at?: number;
}

export interface Format {
  /** `login`: HTTP Basic of the user of the hook; `signature`: hex HMAC-SHA256 of the body in Authorization. */
  readonly proof: 'login' | 'signature';
  /** Undefined: nothing that answers depend on has changed. @throws GatewayError `bad-request`, `forbidden` */
  readonly read: (text: Text, projects: HookConfig['projects']) => PurgeRequest | undefined;
}

export const FORMATS: Readonly<Record<HookConfig['format'], Format>> = {
  // https://kylin.apache.org: what kylin.job.finished-notifier-url is sent.
  // A job that failed may have changed something before.
  kylin5: {
    proof: 'login',
    read(text, projects) {
      const project = projects.get(text('project'));
      if (project === undefined) throw refused('it names a project that is not of this hook');
      return KYLIN_UNCHANGING.has(text('job_type')) ? undefined : { projects: [project] };
    },
  },
  // https://docs.getdbt.com/docs/deploy/webhooks
  dbt: {
    proof: 'signature',
    read(text, projects) {
      const [event, time] = ['eventType', 'timestamp', 'eventId'].map(text);
      const at = Date.parse(time ?? '');
      if (Number.isNaN(at)) throw unreadable('timestamp is no time of ISO 8601');
      return DBT_ENDS.has(event ?? '') ? { projects: [...projects.values()], at } : undefined;
    },
  },
};

/** Types of jobs (JobTypeEnum) after which answers are the same. An unknown one may change data. */
const KYLIN_UNCHANGING = new Set('INDEX_BUILD TABLE_SAMPLING ASYNC_QUERY'.split(' '));
const DBT_ENDS = new Set('job.run.completed job.run.errored'.split(' '));

export const refused = (why: string) => new GatewayError('forbidden', `Nothing was done: ${why}.`);
const unreadable = (why: string) => new GatewayError('bad-request', `Nothing was done: ${why}.`);

/** Reads the message of a body. @throws GatewayError `bad-request` */
export function readFields(body: Buffer): Text {
  let message: unknown;
  try {
    message = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch {
    throw unreadable('the body is no JSON in UTF-8');
  }
  const fields = typeof message === 'object' && !Array.isArray(message) ? message : undefined;
  if (!fields) throw unreadable('the body is no JSON object');
  return (name) => {
    const { [name]: text } = fields as Readonly<Record<string, unknown>>;
    if (typeof text === 'string' && text !== '') return text;
    throw unreadable(`the message has no ${name}, which must be a text`);
  };
}
