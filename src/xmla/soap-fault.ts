import { SOAP } from './names.ts';

export const SOAP_FAULT_CONTENT_TYPE = 'text/xml; charset=utf-8';
/** E_FAIL; XMLA providers write codes as unsigned decimals. */
const UNSPECIFIED_ERROR = '2147500037';

export interface SoapFaultContent {
  /** `Client`: the request cannot succeed as it is; `Server`: it may later (SOAP 1.1 §4.4.1). */
  readonly side: 'Client' | 'Server';
  readonly message: string;
  readonly code?: string | undefined;
}

/**
 * Builds a SOAP 1.1 Fault with the `Error` detail that XMLA clients look for (XMLA 1.1, "Error
 * Handling"). Characters that XML 1.0 forbids become U+FFFD.
 */
export function soapFault({ side, message, code = UNSPECIFIED_ERROR }: SoapFaultContent): Buffer {
  const text = escapeXml(message);
  return soapEnvelope(
    '',
    `<SOAP-ENV:Fault>` +
      `<faultcode>SOAP-ENV:${side}</faultcode><faultstring>${text}</faultstring>` +
      `<detail><Error ErrorCode="${escapeXml(code)}" Description="${text}" Source="mdx-gateway" HelpFile=""/></detail>` +
      `</SOAP-ENV:Fault>`,
  );
}

export function soapEnvelope(header: string, body: string): Buffer {
  return Buffer.from(
    `<?xml version="1.0" encoding="UTF-8"?>\n` +
      `<SOAP-ENV:Envelope xmlns:SOAP-ENV="${SOAP}">${header}<SOAP-ENV:Body>${body}` +
      `</SOAP-ENV:Body></SOAP-ENV:Envelope>`,
  );
}

/** Escapes white space too, which a parser would turn into spaces in an attribute. */
function escapeXml(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[^\t\n\r\u0020-\uFFFD\u{10000}-\u{10FFFF}]/gu, '\uFFFD')
    .replaceAll(/[&<>"'\t\n\r]/g, (character) => `&#${character.charCodeAt(0)};`);
}
