/** The people of the drill, in a process of their own: what they do takes nothing from the gateways' event loops. */
import { KINDS, type Plan } from './plan.ts';
import { machineTime, type Outcome } from './outcome.ts';
import { live, type Scene } from './person.ts';
import { serveRemote } from './remote.ts';

const LOAD =
  '<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><Execute xmlns="urn:schemas-microsoft-com:xml-analysis"><Command><Process/></Command></Execute></Body></Envelope>';

async function day(plan: Plan): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  let [data, leastData] = [1, 1];
  const scene: Scene = {
    plan,
    began: machineTime(),
    outcomes,
    leastData: () => leastData,
    async load() {
      const loads = KINDS.map(async (kind) => {
        const url = `http://127.0.0.1:${plan.engine}/${kind}/xmla`;
        const answer = await fetch(url, { method: 'POST', body: LOAD });
        await answer.arrayBuffer();
      });
      const results = await Promise.allSettled(loads);
      // An engine that is away has no new data, and a purge then promises nothing more.
      if (results.some(({ status }) => status === 'rejected')) return () => {};
      data += 1;
      const now = data;
      return () => (leastData = Math.max(leastData, now));
    },
  };
  await Promise.all(plan.people.map((person) => live(person, scene)));
  return outcomes;
}

serveRemote({ day, ready: () => true });
