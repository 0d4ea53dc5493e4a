import { describe, expect, test } from '@jest/globals';
import {
  acceptedType,
  canonicalContentType,
  forgedAct,
  forgery,
  userAgentClass,
} from '../../../../src/http/request-head.ts';

describe('the class of a User-Agent', () => {
  test.each([
    [undefined, undefined],
    ['', undefined],
    ['  ', undefined],
    ['MSOLAP 16.0 Client', 'MSOLAP'],
    ['MSOLAP', 'MSOLAP'],
    ['ADOMD.NET', 'ADOMD.NET'],
    ['ADOMD.NET/15', 'ADOMD.NET'],
    ['Olap4j(1.2.0)', 'Olap4j'],
    ['Java/17.0.1', 'Java'],
    ['Apache-HttpClient/4.5 (Java)', 'Apache-HttpClient'],
    ['gSOAP/2.8', 'gSOAP'],
    ['msolap 16', 'mdx-gateway'],
    ['MSOLAPX', 'mdx-gateway'],
    ['Mozilla/5.0 MSOLAP', 'mdx-gateway'],
    ['curl/8', 'mdx-gateway'],
  ])('of %j is %j', (header, expected) => {
    expect(userAgentClass(header)).toBe(expected);
  });
});

describe('the media type that is asked for', () => {
  test.each([
    [undefined, undefined],
    ['text/xml', 'text/xml'],
    ['TEXT/XML;q=1', 'not-xml'],
    ['image/png, Application/Xml, text/xml', 'not-xml'],
    ['text/xml, TEXT/XML', 'text/xml'],
    ['application/JSON, text/xml', 'not-xml'],
    ['text/xml;Q=0', 'not-xml'],
    ['image/png, application/xml', 'application/xml'],
    ['application/soap+xml, text/xml', 'application/soap+xml'],
    ['*/*', undefined],
    ['text/html, */*;q=0.8', undefined],
    ['application/json, */*', 'not-xml'],
    ['text/xml, application/json', 'text/xml'],
    ['application/json, text/xml', 'not-xml'],
    ['application/json', 'not-xml'],
    ['text/html', 'not-xml'],
    ['text/*', 'not-xml'],
    ['', 'not-xml'],
    ['text/xml;q=0', 'not-xml'],
    ['text/xml; q = 0.000', 'not-xml'],
    ['text/xml, application/json;q=0', 'not-xml'],
    ['text/xml;q=0.1', 'text/xml'],
  ])('of %j is %j', (header, expected) => {
    expect(acceptedType(header)).toBe(expected);
  });
});

describe('the one spelling of a Content-Type', () => {
  test.each([
    ['text/xml', 'text/xml'],
    ['Text/XML ; Charset="UTF-8"', 'text/xml; charset=utf-8'],
    ['application/xml;charset=utf-16', 'application/xml; charset=utf-16'],
    [undefined, undefined],
    ['', undefined],
    ['application/soap+xml', undefined],
    ['text/xml; action="x"', undefined],
    ['text/xml, text/plain', undefined],
    ['text/xmlx', undefined],
  ])('of %j is %j', (header, expected) => {
    expect(canonicalContentType(header)).toBe(expected);
  });
});

describe('a request that does something', () => {
  test.each([
    [{}],
    [{ 'sec-fetch-site': 'none' }],
    [{ 'sec-fetch-site': 'same-origin' }],
    [{ origin: 'https://gateway.example:8443', host: 'gateway.example:8443' }],
    [{ origin: 'https://gateway.example', host: 'gateway.example' }],
    [{ origin: 'https://gateway.example', host: 'Gateway.example:443' }],
    [{ origin: 'http://gateway.example', host: 'gateway.example:80' }],
    [{ origin: 'https://[::1]:8443', host: '[::1]:8443' }],
    [{ referer: 'https://gateway.example/docs?a,b', host: 'gateway.example' }],
    [{ origin: 'https://a.example', 'sec-fetch-site': 'same-origin', host: 'backend:8080' }],
    [{ origin: '', referer: '', host: 'a' }],
    [{ purpose: 'anything else' }],
  ])('is believed with %j', (headers) => {
    expect(forgery(headers)).toBeUndefined();
  });

  const GOES_TO_A_PAGE = { 'upgrade-insecure-requests': '1' };
  test.each([
    [{ 'sec-fetch-site': 'none' }],
    [{ 'sec-fetch-site': 'same-origin' }],
    [{ referer: 'http://a/console/purges', host: 'a' }],
    [{ origin: 'http://a', host: 'a' }],
  ])('is believed also where a browser goes to a page with %j', (headers) => {
    expect(forgedAct({ ...GOES_TO_A_PAGE, ...headers })).toBeUndefined();
  });

  test.each([{}, { host: 'a' }, { referer: '', host: 'a' }, { referer: '', origin: '' }])(
    'is not believed where a browser goes to a page with %j',
    (headers) => {
      expect(forgedAct(headers)).toBeUndefined();
      expect(forgedAct({ ...GOES_TO_A_PAGE, ...headers })).toContain('which page led it here');
      expect(forgery({ ...GOES_TO_A_PAGE, ...headers })).toBeUndefined();
    },
  );

  test.each([
    [{ 'sec-fetch-site': 'cross-site' }, 'site'],
    [{ 'sec-fetch-site': 'same-site' }, 'site'],
    [{ 'sec-fetch-site': '' }, 'site'],
    [{ 'sec-purpose': 'prefetch;anonymous-client-ip' }, 'prefetch'],
    [{ purpose: 'PREFETCH' }, 'prefetch'],
    [{ 'x-moz': 'prefetch' }, 'prefetch'],
    [{ origin: 'null', host: 'a' }, 'origin'],
    [{ origin: '', referer: 'http://evil', host: 'a' }, 'origin'],
    [{ origin: 'http://a.example', host: 'a' }, 'origin'],
    [{ origin: 'http://a:81', host: 'a' }, 'origin'],
    [{ origin: 'http://a' }, 'origin'],
    [{ origin: 'https://a:80', host: 'a:443' }, 'origin'],
    [{ origin: 'https://a', host: 'a:80' }, 'origin'],
    [{ origin: 'http://a, http://evil', host: 'a' }, 'origin'],
    [{ origin: 'http://evil, http://a', host: 'a' }, 'origin'],
    [{ origin: 'http://a@evil', host: 'a' }, 'origin'],
    [{ origin: 'file://', host: '' }, 'origin'],
    [{ origin: 'chrome-extension://a-b', host: 'a' }, 'origin'],
    [{ origin: 'http://a', host: 'a', referer: 'http://evil/http://a' }, 'origin'],
    [{ origin: 'http://evil', 'sec-fetch-site': 'none', host: 'a' }, 'origin'],
    [{ 'sec-fetch-site': 'same-origin, cross-site', origin: 'http://a', host: 'a' }, 'site'],
    [{ 'sec-fetch-site': 'same-origin', 'sec-purpose': 'prefetch' }, 'prefetch'],
  ])('is not believed with %j', (headers, why) => {
    expect(forgery(headers)).toContain(why);
  });
});
