import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ensureDebianPackages } from '../support/debian-packages.ts';
import { closeDrivers, DRIVERS, startDriver } from '../support/storage-drivers.ts';

const SCRIPT = fileURLToPath(new URL('./reference-client.sh', import.meta.url));

/** The answers as the interface documents them; ids begin anew in each storage, times become T, and the texts behind the codes …. */
const DOCUMENTED = `# create a role
{"status":0,"data":{"role_id":2}}
# read it
{"status":0,"data":{"name":"analysts","description":"Sales of all years","contains":[{"type":"user","name":"ann"},{"type":"user","name":"bob"}]}}
# update it
{"status":0,"data":{"role_id":2}}
# add a user
{"status":0,"data":"success"}
# read what it is now
{"status":0,"data":{"name":"sales analysts","description":"Größe und Umsatz","contains":[{"type":"user","name":"ann"},{"type":"user","name":"carol"}]}}
# remove a user
{"status":0,"data":"success"}
# list the roles
{"status":0,"data":{"pageNum":0,"pageSize":10,"list":[{"id":2,"name":"sales analysts","description":"Größe und Umsatz"},{"id":1,"name":"Admin","description":"This role is an admin role with all semantic information access to all datasets"}],"total":2}}
# list them by name, without descriptions
{"status":0,"data":{"pageNum":0,"pageSize":10,"list":[{"id":2,"name":"sales analysts"}],"total":1}}
# delete it
{"status":0,"data":"success"}
# read what is gone
HTTP 404
{"status":1,"data":"failure","errorMesg":"[NO-SUCH-ROLE] …","code":"no-such-role"}
# import a dataset
{"status":0,"data":{"dataset_id":1}}
# import it again
HTTP 409
{"status":1,"data":"failure","errorMesg":"[DATASET-EXISTS] …","code":"dataset-exists"}
# export it to a file
the same bytes
# import the file elsewhere
{"status":0,"data":{"dataset_id":1}}
# update it there
{"status":0,"data":{"dataset_id":1}}
# list the datasets there
{"project":"learn_kylin","semantic_datasets":[{"dataset_id":1,"dataset_name":"Umsätze","type":"MDX","last_modified":T}]}
`;

beforeAll(() => ensureDebianPackages([{ name: 'curl', probe: 'curl' }]), 600_000);
afterAll(closeDrivers);

describe.each(DRIVERS)('a client of the reference server, over %s', (driver) => {
  test('prints the documented answers, with curl and unchanged', async () => {
    const gateways = [await startDriver(driver), await startDriver(driver)];
    try {
      const args = gateways.flatMap(({ url }) => [url, 'ADMIN:admin']);
      const { stdout, stderr } = await promisify(execFile)(SCRIPT, args);
      const printed = stdout
        .replaceAll(/"last_modified":\d{10}\b/g, '"last_modified":T')
        .replaceAll(/(\[[A-Z-]+\]) \w[^"]*"/g, '$1 …"');
      expect(printed).toBe(DOCUMENTED);
      expect(stderr).toBe('');
    } finally {
      for (const gateway of gateways) await gateway.close();
    }
  });
});
