import { XmlDocument, XmlElement, type XmlNode } from 'libxml2-wasm';

/** What a request asks, whatever the spelling of its envelope: every client writes it in its own way. */
export interface Question {
  readonly method: 'Discover' | 'Execute';
  /** Of a Discover. */
  readonly requestType: string;
  /** Several values are spelt as one element that holds `Value` elements. */
  readonly restrictions: readonly (readonly [name: string, values: string | readonly string[]])[];
  /** Of an Execute. */
  readonly statement: string;
  readonly parameters: readonly (readonly [name: string, value: string])[];
  readonly properties: readonly (readonly [name: string, value: string])[];
}

const NAMESPACES = {
  s: 'http://schemas.xmlsoap.org/soap/envelope/',
  x: 'urn:schemas-microsoft-com:xml-analysis',
};

/**
 * Reads the question out of a recorded request.
 * @throws Error for one whose command is no statement
 */
export function questionOf({ name, body }: { name: string; body: string }): Question {
  const document = XmlDocument.fromString(body);
  try {
    const find = (path: string) => elementsOf(document.find(path, NAMESPACES));
    const [method] = find('/s:Envelope/s:Body/*');
    const list = (path: string) =>
      find(`/s:Envelope/s:Body/*/${path}/*`).map((one) => [one.name, one.content] as const);
    const [statement] = find('/s:Envelope/s:Body/x:Execute/x:Command/x:Statement');
    const [requestType] = find('/s:Envelope/s:Body/x:Discover/x:RequestType');
    if (method === undefined || (statement ?? requestType) === undefined) {
      throw new Error(`${name}: neither a statement nor a Discover`);
    }
    return {
      method: requestType === undefined ? 'Execute' : 'Discover',
      requestType: requestType?.content ?? '',
      restrictions: find('/s:Envelope/s:Body/*/x:Restrictions/x:RestrictionList/*').map((one) => {
        const values = elementsOf(one.find('*')).map(({ content }) => content);
        return [one.name, values.length === 0 ? one.content : values] as const;
      }),
      statement: statement?.content ?? '',
      parameters: find('/s:Envelope/s:Body/*/x:Parameters/x:Parameter').map((one) => {
        const [key, value] = elementsOf(one.find('*')).map(({ content }) => content);
        return [key ?? '', value ?? ''] as const;
      }),
      properties: list('x:Properties/x:PropertyList'),
    };
  } finally {
    document.dispose();
  }
}

function elementsOf(nodes: readonly XmlNode[]): readonly XmlElement[] {
  return nodes.filter((node) => node instanceof XmlElement);
}
