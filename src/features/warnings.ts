import type { ConfigWarnings } from './feature.ts';
import { hookWarnings } from './hooks/warnings.ts';
import { warmWarnings } from './warm/warnings.ts';

/** Warnings of features. They stand alone, since what features are made of takes long to load. */
export const WARNINGS: readonly ConfigWarnings[] = [hookWarnings, warmWarnings];
