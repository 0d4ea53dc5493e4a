import type { BypassReason, RefusalReason } from './reasons.ts';

/** What an operator can do about a reason. */
export const REMEDIES: Readonly<Partial<Record<BypassReason | RefusalReason, string>>> = {};
