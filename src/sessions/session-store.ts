export type { SessionRecord } from '../freshness/freshness-store.ts';
