import { createHmac } from 'node:crypto';
import { send, type Answer } from './http-client.ts';
import { basic } from './test-gateway.ts';

/** Long enough for `hooks.NAME.secret`. */
export const SECRET = 'a secret of dbt Cloud';

/** What Kylin 5 posts about a job that is over, with what a test says otherwise. */
export const kylinJob = (changes: Readonly<Record<string, unknown>> = {}): string =>
  JSON.stringify({
    job_id: '6044ac09-27bc-4968-a6b0-881c4c0abf89',
    project: 'shop',
    model_id: '91402da4-b991-4cd8-b164-7f62b9e91b69',
    segment_ids: ['9e5a89b9-00f1-4296-adc4-139113030e83'],
    duration: 27699,
    job_state: 'SUCCEED',
    job_type: 'INC_BUILD',
    ...changes,
  });

let events = 0;
/** What dbt Cloud posts about a run that is over; each is another event. */
export const dbtRun = (changes: Readonly<Record<string, unknown>> = {}, now = Date.now()): string =>
  JSON.stringify({
    accountId: 1,
    webhookId: 'wsu_12345abcde',
    eventId: `wev_${(events += 1)}`,
    // With the nanoseconds that dbt sends.
    timestamp: new Date(now).toISOString().replace('Z', '123456Z'),
    eventType: 'job.run.completed',
    data: { jobId: '123', runStatus: 'Success', projectName: 'Shop' },
    ...changes,
  });

export const signatureOf = (body: string | Buffer, secret = SECRET): string =>
  createHmac('sha256', secret).update(body).digest('hex');

type Headers = Readonly<Record<string, string>>;

/** Posts a message to a hook. @param headers those that prove who sends it; `{}` for none */
export function callHook(
  base: string,
  name: string,
  body: string | Buffer,
  headers: Headers,
): Promise<Answer> {
  const length = String(Buffer.byteLength(body));
  const common = { 'content-type': 'application/json', 'content-length': length };
  return send(base, {
    method: 'POST',
    path: `/hooks/${name}`,
    body,
    headers: { ...common, ...headers },
  });
}

/** Purges as Kylin 5 has it done, by the login of the user. */
export const callKylinHook = (base: string, name: string, user: string, body = kylinJob()) =>
  callHook(base, name, body, { authorization: basic(user) });

/** Purges as dbt Cloud has it done. */
export const callDbtHook = (base: string, name: string, body: string | Buffer = dbtRun()) =>
  callHook(base, name, body, { authorization: signatureOf(body) });
