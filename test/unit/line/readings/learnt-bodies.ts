import type { Circumstances } from '../../../../src/line/circumstances.ts';
import { addLayout, type Layouts } from '../../../../src/line/layouts.ts';
import { createReadings } from '../../../../src/line/readings.ts';

/** Readings of bodies under the same circumstances, and the layouts of one head. */
export function learntBodies(circumstances: Circumstances) {
  const readings = createReadings();
  const layouts: Layouts = [];
  const ownTurn = () => undefined;
  const read = (body: Buffer) => readings.read({ body, circumstances, owner: 'alice', ownTurn });
  return {
    read,
    /** Whether the body could be learnt. */
    async learn(body: Buffer): Promise<boolean> {
      await read(body);
      const { recognised } = await read(body);
      if (recognised !== undefined) addLayout(layouts, recognised.layout);
      return recognised !== undefined;
    },
    find: (body: Buffer) => readings.find(layouts, body),
  };
}
