import type { ConfigWarnings } from './feature.ts';
import { hookWarnings } from './hooks/warnings.ts';
import { warmWarnings } from './warm/warnings.ts';

/** Warnings of features, apart from the features, which take long to load. */
export const WARNINGS: readonly ConfigWarnings[] = [hookWarnings, warmWarnings];
