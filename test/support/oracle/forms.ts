import type { GatewaySettings, OracleGateway } from './gateways.ts';
import type { Disturbance } from './weather.ts';

/** What the gateways of a run are, what they share, and what can go wrong with it. */
export interface OracleForm {
  startGateway(name: string, settings: GatewaySettings): Promise<OracleGateway>;
  /** What can go wrong, in lists of things that can be disturbed side by side. */
  disturbances(
    gateways: readonly OracleGateway[],
    random: (below: number) => number,
  ): readonly (readonly Disturbance[])[];
  /** Of gateways that also purge by a hook and a watcher, and warm up: has the fleet begin anew. */
  forget?(): Promise<void>;
  close(): Promise<void>;
}
