/** What goes over a link, as JSON. Both ends may be of different versions: what is not as it should be is no message. */
export type Message =
  | {
      readonly kind: 'call';
      /** Chosen by the caller; the answer has the same. */
      readonly id: number;
      readonly service: string;
      readonly method: string;
      readonly args: readonly unknown[];
    }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'failure'; readonly id: number; readonly message: string }
  | { readonly kind: 'told'; readonly topic: string; readonly value: unknown };

/** Undefined when it is none: others use the same channel, Node.js itself too. */
export function readMessage(said: unknown): Message | undefined {
  if (typeof said !== 'object' || said === null || !('kind' in said)) return undefined;
  const { kind, id, service, method, args, value, message, topic } = said as Readonly<
    Record<string, unknown>
  >;
  if (kind === 'told') return typeof topic === 'string' ? { kind, topic, value } : undefined;
  if (typeof id !== 'number' || !Number.isSafeInteger(id)) return undefined;
  switch (kind) {
    case 'call':
      if (typeof service !== 'string' || typeof method !== 'string') return undefined;
      return Array.isArray(args) ? { kind, id, service, method, args } : undefined;
    case 'answer':
      return { kind, id, value };
    case 'failure':
      return typeof message === 'string' ? { kind, id, message } : undefined;
  }
  return undefined;
}
