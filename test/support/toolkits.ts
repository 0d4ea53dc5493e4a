import * as fc from 'fast-check';

const SCHEMA = 'http://www.w3.org/2001/XMLSchema';
const LISTS = ['RestrictionList', 'PropertyList', 'Properties'] as const;
const TEXTS = [
  ...(['RequestType', 'Statement', 'Value', 'Name', 'CUBE_NAME', 'CATALOG_NAME'] as const),
  ...(['PropertyName', 'Catalog', 'Format', 'Timeout', 'ApplicationContext'] as const),
];

/** In which form a toolkit writes a request. */
export interface Toolkit {
  /** Names of elements that get a simple type, where they hold no others. */
  readonly typed: readonly string[];
  readonly type: string;
  /** Whether empty elements are nil instead. */
  readonly nil: boolean;
}

export const toolkit: fc.Arbitrary<Toolkit> = fc.record({
  typed: fc.subarray([...LISTS, ...TEXTS], { maxLength: 4 }),
  type: fc.constantFrom('xsd:string', 'xsd:int', 'xs:string'),
  nil: fc.boolean(),
});

/** The same request as a toolkit writes it. @param body in UTF-8 */
export function asToolkit(body: Buffer, { typed, type, nil }: Toolkit): Buffer {
  const attribute = ` xsi:type="${type}"`;
  const text = body
    .toString()
    .replace(
      /Envelope /,
      `$&xmlns:xsi="${SCHEMA}-instance" xmlns:xsd="${SCHEMA}" xmlns:xs="${SCHEMA}" `,
    )
    .replaceAll(/<(\w+)>([^<]*)<\/\1>/g, (whole, name: string, inside: string) => {
      const isNil = nil && inside === '';
      if (!isNil && !typed.includes(name)) return whole;
      return `<${name}${isNil ? ' xsi:nil="true"' : attribute}>${inside}</${name}>`;
    });
  return Buffer.from(text);
}

/** What is written in the form of a toolkit, as an engine may see it: sorted, with the name of the element. */
export function formsIn(body: Buffer): string {
  const forms = body.toString().matchAll(/<(\w+)[^>]*? xsi:(?:nil|type)="[^"]*"/g);
  return Array.from(forms, ([form]) => form)
    .toSorted()
    .join(' ');
}
