import { constants, fstatSync, openSync } from 'node:fs';
import { Socket } from 'node:net';

const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;

/**
 * Has writes to a pipe or a socket fail with EAGAIN where they would wait for its reader. That counts for all
 * processes that share it, and for both outputs where they are one. What a process has as its descriptors 0 to 2 is made
 * blocking again when it starts (`uv_spawn`), and set as it was then when it ends (`ResetStdio` in `node.cc`).
 */
export function unblock(fd: number): void {
  const kind = fstatSync(fd);
  if (!kind.isFIFO() && !kind.isSocket()) return;
  try {
    // `uv_pipe_open` and `uv_tcp_open` do it. It is not used for anything else.
    void new Socket({ fd, readable: false, writable: true });
  } catch {
    // A kind of socket that Node.js does not know stays as it is.
  }
}

/**
 * The same for this process alone, where the system allows it: pipes and terminals in Linux can be opened once more.
 * @returns the descriptor to write to; `fd` itself where there is no other, as for files, which keep nothing waiting
 */
export function openUnblocked(fd: number): number {
  if (fstatSync(fd).isFile()) return fd;
  try {
    return openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    return fd;
  }
}
