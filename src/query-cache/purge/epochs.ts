export type { CapturedEpochs, Epochs } from '../../freshness/freshness.ts';
