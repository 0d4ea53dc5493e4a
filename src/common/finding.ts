export const SEVERITIES = ['problem', 'warning', 'note'] as const;

export interface Finding {
  readonly kind: string;
  readonly severity: (typeof SEVERITIES)[number];
  readonly text: string;
  readonly cause: string;
  readonly remedy: string;
}

/** Makes a finding of three lines where it applies. Facts are put into one line. */
export const finding =
  (severity: Finding['severity'], kind: string, applies: boolean) =>
  (raw: TemplateStringsArray, ...facts: readonly (string | number)[]): readonly Finding[] => {
    const inLine = facts.map((fact) => String(fact).replaceAll(/\s+/g, ' '));
    const lines = String.raw({ raw }, ...inLine).trim();
    const [text = '', cause = '', remedy = ''] = lines.split(/\n\s*/);
    return applies ? [{ kind, severity, text, cause, remedy }] : [];
  };
