const english = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

export const count = (figure: number): string => english.format(figure);

export const percent = (ratio: number | null): string =>
  ratio === null ? '–' : `${(100 * ratio).toFixed(1)} %`;

export function duration(milliseconds: number | null): string {
  if (milliseconds === null) return '–';
  if (milliseconds < 9.95) return `${milliseconds.toFixed(1)} ms`;
  if (milliseconds < 999.5) return `${milliseconds.toFixed(0)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 9.995) return `${seconds.toFixed(2)} s`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 3_570) return `${(seconds / 60).toFixed(1)} min`;
  const hours = seconds / 3_600;
  return hours < 48 ? `${hours.toFixed(1)} h` : `${(hours / 24).toFixed(1)} d`;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
export function size(bytes: number): string {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  const figure = bytes / 1024 ** power;
  return `${figure.toFixed(power === 0 || figure >= 99.95 ? 0 : 1)} ${UNITS[power]}`;
}

export const plural = (figure: number, one: string, several = `${one}s`): string =>
  `${count(figure)} ${figure === 1 ? one : several}`;
