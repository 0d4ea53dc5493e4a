/** The last step of the build: what the demo replays is data, which the compiler leaves behind. */
import { cp } from 'node:fs/promises';

const folder = (path: string) => new URL(path, import.meta.url);

await cp(folder('../src/demo/recordings'), folder('../dist/demo/recordings'), { recursive: true });
