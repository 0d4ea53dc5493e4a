import { dataAnswer } from '../integration/cache/gateways.ts';
import { response as answered } from './answers.ts';
import { sendXml, startStubEngine, type StubEngine } from './stub-engine.ts';

export interface WatchedEngine extends StubEngine {
  /** What its answers hold, and the date of its cubes. */
  data: string;
  /** It answers users, and not those who ask for its dates. */
  away: boolean;
  /** How often its dates were asked for. */
  looks: number;
}

/** An engine that tells of each project when its data changed, as SSAS does. */
export async function startWatchedEngine(): Promise<WatchedEngine> {
  const stub = await startStubEngine((response, request) => {
    const [project = ''] = request.url.split('/').slice(-1);
    const body = request.body.toString();
    const cube = /<CUBE_NAME>(.*?)<\/CUBE_NAME>/u.exec(body)?.[1];
    if (cube !== undefined) {
      return sendXml(dataAnswer(engine.data, { project, cube }))(response, request);
    }
    if (body.includes('MDSCHEMA_CUBES')) engine.looks += 1;
    const row = `<row><CUBE_NAME>Sales</CUBE_NAME><LAST_DATA_UPDATE>${engine.data}</LAST_DATA_UPDATE></row>`;
    const dates = answered('Discover', 'rowset', row);
    return sendXml(dates, engine.away ? { status: 503 } : {})(response, request);
  });
  const engine = Object.assign(stub, { data: 'old', away: false, looks: 0 });
  return engine;
}
