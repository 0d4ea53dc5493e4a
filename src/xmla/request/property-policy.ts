import type { BypassReason } from '../../reasons.ts';
import { foldName } from '../fold-name.ts';
import type { Property } from './xmla-request.ts';

/**
 * New for every request or process of a client, and without effect on the answer: not in the key. Exactly
 * these spellings; what is spelt otherwise is another property and stays in the key.
 */
const IGNORED: ReadonlySet<string> = new Set([
  'DbpropMsmdActivityID',
  'DbpropMsmdRequestID',
  'DbpropMsmdCurrentActivityID',
  'ClientProcessID',
  'SspropInitWsid',
  'SspropInitPacketsize',
  'RequestPriority',
  'DbpropMsmdRequestMemoryLimit',
  'MemoryLockingMode',
  'ApplicationContext',
  'Timeout',
  'CommitTimeout',
  'ForceCommitTimeout',
]);

/** Properties that speak of an identity, in any spelling that some engine may accept. */
const IDENTITY: ReadonlySet<string> = new Set(
  ['EffectiveUserName', 'Roles', 'EffectiveRoles', 'CustomData', 'UserName', 'Password'].map(
    foldName,
  ),
);

const REAL_TIME_OLAP = foldName('RealTimeOlap');
const NOT_REAL_TIME: ReadonlySet<string> = new Set(['', 'false', '0']);

interface PropertyRule {
  readonly reason: BypassReason;
  readonly applies: (properties: readonly Property[]) => boolean;
}

const RULES: readonly PropertyRule[] = [
  {
    reason: 'identity-property',
    applies: (properties) => properties.some(({ name }) => namesIdentity(name)),
  },
  // Engines differ in whether case matters and in which of two they take.
  {
    reason: 'duplicate-property',
    applies: (properties) =>
      new Set(properties.map(({ name }) => foldName(name))).size < properties.length,
  },
  {
    reason: 'real-time',
    applies: (properties) =>
      properties.some(
        ({ name, value }) =>
          foldName(name) === REAL_TIME_OLAP && !NOT_REAL_TIME.has(foldName(value.trim())),
      ),
  },
];

/** Why a request with these properties may not be cached; undefined when it may. */
export function classifyProperties(properties: readonly Property[]): BypassReason | undefined {
  return RULES.find(({ applies }) => applies(properties))?.reason;
}

/** Whether a property of this name tells or changes who asks. */
export function namesIdentity(name: string): boolean {
  return IDENTITY.has(foldName(name.trim()));
}

/** The properties that belong in the key, sorted by name; equal names keep their order. */
export function keyedProperties(properties: readonly Property[]): Property[] {
  return properties
    .filter(({ name }) => !IGNORED.has(name))
    .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}
