import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CLIENT_CORE, run } from '../processes.ts';
import { filledLength, numberText, SLOTS, type Slot } from '../questions.ts';

/** One kind of request among those that a load sends. */
export interface LoadRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** With slots, or without. */
  readonly body: string;
}

/** What is sent to one server for a while, on so many connections, each waiting for its answer before it asks again. */
export interface Load {
  readonly port: number;
  readonly connections: number;
  /** Whole seconds: wrk knows no parts of them. */
  readonly seconds: number;
  readonly requests: readonly LoadRequest[];
  /** In which order they are sent, by their places, over and over; by default one after the other. */
  readonly deck?: readonly number[];
  /** What goes into the slot for sessions, in turn. */
  readonly sessions?: readonly string[];
  /** The first of the numbers, and how many there are before the first comes again. */
  readonly numbers?: { readonly from: number; readonly count: number };
}

export interface LoadResult {
  readonly requests: number;
  readonly seconds: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}

/** The line of its output that holds the figures. */
const MARK = 'BENCH ';
/** A busy machine may let no answer through in a short time, so the load is sent for longer; not more than so (s). */
const LONGEST = 60;

/**
 * Has wrk send a load. @throws Error when an answer was not a success, or a connection failed
 * @param folder where the script for it is written
 */
export async function sendLoad(load: Load, folder: string): Promise<LoadResult> {
  const script = join(folder, 'load.lua');
  writeFileSync(script, scriptOf(load));
  const output = await run(CLIENT_CORE, 'wrk', [
    '--threads=1',
    `--connections=${load.connections}`,
    `--duration=${load.seconds}s`,
    '--timeout=30s',
    `--script=${script}`,
    `http://127.0.0.1:${load.port}/`,
  ]);
  const line = output.split('\n').find((one) => one.startsWith(MARK));
  if (line === undefined) throw new Error(`wrk told no figures:\n${output}`);
  const [requests = 0, microseconds = 0, failures = 0, p50 = 0, p99 = 0] = line
    .slice(MARK.length)
    .split(' ')
    .map(Number);
  if (failures > 0) throw new Error(`${failures} failures under load:\n${output}`);
  if (requests === 0) {
    if (load.seconds > LONGEST) throw new Error(`no answer under load:\n${output}`);
    return sendLoad({ ...load, seconds: load.seconds * 2 }, folder);
  }
  return { requests, seconds: microseconds / 1e6, p50: p50 / 1e3, p99: p99 / 1e3 };
}

function scriptOf(load: Load): string {
  const { requests, sessions = [], numbers = { from: 0, count: 99_999_999 } } = load;
  const deck = load.deck ?? requests.map((_, at) => at);
  return `
local requests = {${requests.map((one) => luaRequest(one, load.port)).join(',\n')}}
local deck = {${deck.map((at) => at + 1).join(',')}}
local sessions = {${sessions.map(luaText).join(',')}}
local turn, number, seed = 0, 0, ${Date.now() % 1_000_000_000}
local format, concat = string.format, table.concat

request = function()
  turn = turn + 1
  local one = requests[deck[(turn - 1) % #deck + 1]]
  if type(one) == 'string' then return one end
  local text = one.text
  for at, slot in pairs(one.slots) do
    if slot == ${luaText('@GUID@')} then
      text[at] = format('%08x-%04x-4000-8000-%012d', seed, at, turn)
    elseif slot == ${luaText('@SESSION@')} then
      text[at] = sessions[turn % #sessions + 1]
    else
      text[at] = format('%0${numberText(0).length}d', ${numbers.from} + number % ${numbers.count})
    end
  end
  if one.numbered then number = number + 1 end
  return concat(text)
end

done = function(summary, latency)
  local e = summary.errors
  io.write(format('${MARK}%d %d %d %d %d\\n', summary.requests, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99)))
end
`;
}

/** A request with nothing to fill is a string, so that nothing is left to do for it. */
function luaRequest({ path, headers, body }: LoadRequest, port: number): string {
  const lines = [
    `POST ${path} HTTP/1.1`,
    `Host: 127.0.0.1:${port}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    `Content-Length: ${filledLength(body)}`,
  ];
  const pieces = `${lines.join('\r\n')}\r\n\r\n${body}`.split(/(@[A-Z]+@)/);
  if (pieces.length === 1) return luaText(pieces[0] ?? '');
  const slots = pieces.flatMap((piece, at) =>
    isSlot(piece) ? [`[${at + 1}]=${luaText(piece)}`] : [],
  );
  const numbered = pieces.includes('@NUMBER@');
  return `{text={${pieces.map(luaText).join(',')}},slots={${slots.join(',')}},numbered=${numbered}}`;
}

function isSlot(text: string): text is Slot {
  return Object.hasOwn(SLOTS, text);
}

function luaText(text: string): string {
  const escaped = text
    .replaceAll('\\', '\\\\')
    .replaceAll('"', '\\"')
    .replaceAll('\r', '\\r')
    .replaceAll('\n', '\\n');
  return `"${escaped}"`;
}
