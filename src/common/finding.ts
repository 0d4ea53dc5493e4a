/** How much a finding matters, the worst first. */
export const SEVERITIES = ['problem', 'warning', 'note'] as const;

/** Something an operator should look at: what is so, why, and what to do. */
export interface Finding {
  readonly kind: string;
  readonly severity: (typeof SEVERITIES)[number];
  readonly text: string;
  readonly cause: string;
  readonly remedy: string;
}

/** Makes a finding from three lines where it applies; else none. Facts are put into one line. */
export const finding =
  (severity: Finding['severity'], kind: string, applies: boolean) =>
  (raw: TemplateStringsArray, ...facts: readonly (string | number)[]): readonly Finding[] => {
    const inLine = facts.map((fact) => String(fact).replaceAll(/\s+/g, ' '));
    const lines = String.raw({ raw }, ...inLine).trim();
    const [text = '', cause = '', remedy = ''] = lines.split(/\n\s*/);
    return applies ? [{ kind, severity, text, cause, remedy }] : [];
  };
