import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** An engine that answers every request with the same small mddataset. */
export interface EngineStandIn {
  readonly url: string;
  /** Those that were asked; whether it answers at all is asked by a Discover. */
  readonly queries: number;
  close(): Promise<void>;
}

const ANSWER = `<?xml version="1.0" encoding="UTF-8"?>
<SOAP-ENV:Envelope xmlns:SOAP-ENV="http://schemas.xmlsoap.org/soap/envelope/"><SOAP-ENV:Body>
<ExecuteResponse xmlns="urn:schemas-microsoft-com:xml-analysis"><return>
<root xmlns="urn:schemas-microsoft-com:xml-analysis:mddataset" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema">
<OlapInfo><CubeInfo><Cube><CubeName>Trial</CubeName></Cube></CubeInfo><AxesInfo/><CellInfo><Value name="VALUE"/></CellInfo></OlapInfo>
<Axes/>
<CellData><Cell CellOrdinal="0"><Value xsi:type="xsd:int">42</Value></Cell></CellData>
</root></return></ExecuteResponse>
</SOAP-ENV:Body></SOAP-ENV:Envelope>`;

export async function startEngineStandIn(): Promise<EngineStandIn> {
  let queries = 0;
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (bytes) => (body += String(bytes)));
    request.once('end', () => {
      if (body.includes('<Execute')) queries += 1;
      response.writeHead(200, { 'Content-Type': 'text/xml; charset=UTF-8' }).end(ANSWER);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/xmla`,
    get queries() {
      return queries;
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
