import { describe, expect, test } from '@jest/globals';
import { readRequest } from '../../../../../src/xmla/request/read-request.ts';

const SOAP = 'http://schemas.xmlsoap.org/soap/envelope/';
const XMLA = 'urn:schemas-microsoft-com:xml-analysis';
const XS = 'http://www.w3.org/2001/XMLSchema';

const enveloped = (body: string, header = '') =>
  `<s:Envelope xmlns:s="${SOAP}" xmlns:xsi="${XS}-instance" xmlns:xsd="${XS}" xmlns:other="urn:x">${header}<s:Body>${body}</s:Body></s:Envelope>`;
const TYPE = '<RequestType>MDSCHEMA_CUBES</RequestType>';
const discover = (parts: string) => enveloped(`<Discover xmlns="${XMLA}">${parts}</Discover>`);
const execute = (parts: string) => enveloped(`<Execute xmlns="${XMLA}">${parts}</Execute>`);
const restricted = (list: string) =>
  discover(
    `${TYPE}<Restrictions><RestrictionList>${list}</RestrictionList></Restrictions><Properties/>`,
  );
const withProperty = (property: string) =>
  execute(
    `<Command><Statement>x</Statement></Command><Properties><PropertyList>${property}</PropertyList></Properties>`,
  );

function understood(text: string) {
  const reading = readRequest(Buffer.from(text), 'text/xml');
  if (reading.kind !== 'understood') throw new Error(reading.detail);
  return reading.request;
}

describe('what toolkits write is read, with its form', () => {
  test.each([
    [
      'nil Restrictions and Properties, as zeep and PHP write them',
      discover(`${TYPE}<Restrictions xsi:nil="true"/><Properties xsi:nil="1"></Properties>`),
      ['Properties nil=1', 'Restrictions nil=true'],
    ],
    [
      'empty lists and texts with their types, as SOAP::Lite writes them',
      discover(
        `<RequestType xsi:type="xsd:string">MDSCHEMA_CUBES</RequestType><Restrictions><RestrictionList xsi:type="xsd:string" /></Restrictions><Properties><PropertyList xsi:type="xsd:string"/></Properties>`,
      ),
      [
        'PropertyList type=xsd:string',
        'RequestType type=xsd:string',
        'RestrictionList type=xsd:string',
      ],
    ],
    [
      'a statement',
      execute(
        '<Command><Statement xsi:type="xsd:string">ä</Statement></Command><Properties xsi:type="xsd:string"/>',
      ),
      ['Properties type=xsd:string', 'Statement type=xsd:string'],
    ],
    [
      'properties, whatever their order',
      withProperty(
        '<Catalog xsi:type="xsd:string">C</Catalog><BeginRange xsi:type="xsd:int">0</BeginRange>',
      ),
      ['PropertyList/BeginRange type=xsd:int', 'PropertyList/Catalog type=xsd:string'],
    ],
    [
      'the second restriction',
      restricted('<A/><A xsi:nil="true"/>'),
      ['RestrictionList/1 nil=true'],
    ],
    [
      'one value of a restriction',
      restricted('<A><Value>1</Value><Value xsi:type="xsd:string">2</Value></A>'),
      ['RestrictionList/0/1 type=xsd:string'],
    ],
    [
      'the name of a parameter, and none',
      execute(
        '<Command><Statement>x</Statement></Command><Properties/><Parameters><Parameter><Name xsi:type="xsd:string">p</Name><Value xsi:type="xsd:int">1</Value></Parameter></Parameters>',
      ),
      ['Parameters/0 type=xsd:string'],
    ],
  ])('%s', (_what, text, forms) => {
    const { unexpected, ...request } = understood(text);
    expect(unexpected).toBeUndefined();
    expect(request.forms).toEqual(forms);
    // In all else it says what it says without.
    const plain = understood(text.replaceAll(/ xsi:(?:nil|type)="[^"]*"/g, ''));
    const isOfParameter = text.includes('Parameters');
    if (!isOfParameter) expect({ ...request, unexpected, forms: [] }).toEqual(plain);
  });

  test.each([
    [
      'begins a session',
      '<BeginSession xmlns="urn:schemas-microsoft-com:xml-analysis" xsi:type="xsd:string" mustUnderstand="1"/>',
    ],
    [
      'runs in one',
      '<Session xmlns="urn:schemas-microsoft-com:xml-analysis" xsi:nil="true" SessionId="1"/>',
    ],
  ])('a block that %s', (_what, block) => {
    const { unexpected, session } = understood(
      enveloped(
        `<Execute xmlns="${XMLA}"><Command><Statement/></Command><Properties/></Execute>`,
        `<s:Header>${block}</s:Header>`,
      ),
    );
    expect(unexpected).toBeUndefined();
    if (session.kind === 'in') expect(session.understand).toContain('nil');
    else expect(session).toEqual({ kind: 'begin' });
  });
});

describe('what no toolkit writes is unexpected:', () => {
  test.each([
    ['nil that is not', discover(`${TYPE}<Restrictions xsi:nil="false"/><Properties/>`)],
    ['nil in capitals', discover(`${TYPE}<Restrictions xsi:nil="TRUE"/><Properties/>`)],
    ['nil of no namespace', discover(`${TYPE}<Restrictions nil="true"/><Properties/>`)],
    ['nil of another one', discover(`${TYPE}<Restrictions other:nil="true"/><Properties/>`)],
    [
      'nil around a list',
      discover(
        `${TYPE}<Restrictions xsi:nil="true"><RestrictionList/></Restrictions><Properties/>`,
      ),
    ],
    [
      'nil around white space',
      discover(`${TYPE}<Restrictions xsi:nil="true"> </Restrictions><Properties/>`),
    ],
    [
      'nil around CDATA',
      discover(`${TYPE}<Restrictions xsi:nil="true"><![CDATA[]]></Restrictions><Properties/>`),
    ],
    ['nil around a text', withProperty('<Catalog xsi:nil="true">C</Catalog>')],
    ['a list of a simple type', withProperty('<A xsi:type="xsd:string"><B/></A>')],
    [
      'a type around a list',
      execute(
        '<Command><Statement>x</Statement></Command><Properties><PropertyList xsi:type="xsd:string"><A/></PropertyList></Properties>',
      ),
    ],
    // An engine that decodes it would run what is not read here.
    [
      'a statement in base64, as SOAP::Lite writes letters beyond ASCII by itself',
      execute(
        '<Command><Statement xsi:type="xsd:base64Binary">w6Q=</Statement></Command><Properties/>',
      ),
    ],
    ['a type of another namespace', withProperty('<A xsi:type="other:string">1</A>')],
    ['a type without a prefix', withProperty('<A xsi:type="string">1</A>')],
    ['a type that is not simple', withProperty('<A xsi:type="xsd:QName">s:A</A>')],
    ['another attribute of the instance', withProperty('<A xsi:schemaLocation="urn:x">1</A>')],
    [
      'a type of the method',
      enveloped(
        `<Execute xmlns="${XMLA}" xsi:type="xsd:string"><Command><Statement>x</Statement></Command><Properties/></Execute>`,
      ),
    ],
    ['a nil Command', execute('<Command xsi:nil="true"/><Properties/>')],
  ])('%s', (_what, text) => {
    expect(understood(text).unexpected).toEqual(expect.any(String));
  });
});
