import type { Cluster, Command } from 'ioredis';

/** The least time between two looks at who serves which slots (ms). */
const REFRESH_PAUSE = 500;

/**
 * The time of a command runs from when it is given to the client, not from when a node gets it. A command that
 * nobody answered, or found no connection, makes the client ask who serves which slots: a node that is silent
 * does not say that another one has taken its place.
 */
export function holdToDeadline(cluster: Cluster, deadline: number): void {
  const send = cluster.sendCommand.bind(cluster);
  let resting = false;
  const refresh = () => {
    if (resting || cluster.status !== 'ready') return;
    resting = true;
    setTimeout(() => (resting = false), REFRESH_PAUSE).unref();
    cluster.refreshSlotsCache();
  };
  cluster.sendCommand = (command: Command, ...rest) => {
    command.setTimeout(deadline);
    const sent = send(command, ...rest);
    command.promise.catch((error: unknown) => {
      if (error instanceof Error && /timed out|closed|isn't/iu.test(error.message)) refresh();
    });
    return sent;
  };
}
