/** Certificates and keys made with openssl for these tests; nothing else trusts or uses them. */

/** Signed by itself, for one.example. */
export const CERTIFICATE = [
  '-----BEGIN CERTIFICATE-----',
  'MIIBgzCCASmgAwIBAgIUGgeW3qmQvdpmmN75qdV76whaYB4wCgYIKoZIzj0EAwIw',
  'FjEUMBIGA1UEAwwLb25lLmV4YW1wbGUwIBcNMjYxMTIxMDg0NjAzWhgPMjEyNjEw',
  'MjgwODQ2MDNaMBYxFDASBgNVBAMMC29uZS5leGFtcGxlMFkwEwYHKoZIzj0CAQYI',
  'KoZIzj0DAQcDQgAEQuCsTndK5+xnH8+XWJXRamlKLC585TNuyoHPESHVfZclPA+a',
  'h9Q9sQu86DzcOrKiAvnP5W77nkyD66lnonYshqNTMFEwHQYDVR0OBBYEFP96xB4O',
  'V1H2YMh7M7HOnwz1jvX6MB8GA1UdIwQYMBaAFP96xB4OV1H2YMh7M7HOnwz1jvX6',
  'MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhAK6fa77ahoAkLCU5',
  '39IrJt8ZR2R91j4yvSYewjP2fN2VAiBVltI5ZB1A5CrHlg3TiSmnmSk0YT1Po2hR',
  'vZiAuqDNHA==',
  '-----END CERTIFICATE-----',
  '',
].join('\n');

/** Belongs to CERTIFICATE. */
export const PRIVATE_KEY = [
  '-----BEGIN PRIVATE KEY-----',
  'MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgM8EpvWq9C5njuO1m',
  'ZiSvOIWXcp2DFRajIapMfrX5LGWhRANCAARC4KxOd0rn7Gcfz5dYldFqaUosLnzl',
  'M27Kgc8RIdV9lyU8D5qH1D2xC7zoPNw6sqIC+c/lbvueTIPrqWeidiyG',
  '-----END PRIVATE KEY-----',
  '',
].join('\n');

/** The same key under a passphrase. */
export const LOCKED_KEY = [
  '-----BEGIN ENCRYPTED PRIVATE KEY-----',
  'MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgFRzEtsPrBBwICCAAw',
  'DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEECJJnNM8yqrpNEeZfLEGBHEEgZDw',
  '28aOmlKV6MjcFBMcRxpaYNqryTMT/c20UcGYyGvgx3IP2ckv+/IjO+zbVeFfGyHU',
  'DA7w6HV0dfeSEPKRS4Nuo9sQ328rmpcGSpU7KHBjvAv+TCkf9O2F7e2YJs+8hUKA',
  'LPCDbRTtny5YLsKFwhmHDo8C1CrBeiEnXOeQmdqAuLoIwP7QBudCZC1xaPpQkeo=',
  '-----END ENCRYPTED PRIVATE KEY-----',
  '',
].join('\n');

/** Signed by itself, for two.example. */
export const OTHER_CERTIFICATE = [
  '-----BEGIN CERTIFICATE-----',
  'MIIBgjCCASmgAwIBAgIUXFa7PEb5QQJEafPT5A/vy+jy1qUwCgYIKoZIzj0EAwIw',
  'FjEUMBIGA1UEAwwLdHdvLmV4YW1wbGUwIBcNMjYxMTIxMDg0NjAzWhgPMjEyNjEw',
  'MjgwODQ2MDNaMBYxFDASBgNVBAMMC3R3by5leGFtcGxlMFkwEwYHKoZIzj0CAQYI',
  'KoZIzj0DAQcDQgAEOYf4hqUK7/eDdgj8ghT6KQ1/9wLve6jvs7gxOBXFTmSuuK3r',
  'YO/QiR4Y04tsi/FF/VAije/H54d/8p2Oue88r6NTMFEwHQYDVR0OBBYEFLY6ZSPy',
  'fDPflwmEqTDHOqJvIU7yMB8GA1UdIwQYMBaAFLY6ZSPyfDPflwmEqTDHOqJvIU7y',
  'MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgN3KBpH1PDlYcOU1F',
  'npXLXefw+2x7I7l9p8cmUHaMVegCIGk7eTxaeag5QBTPcPB/HOIVP3Ti9nVi8S1i',
  'FWelSNEs',
  '-----END CERTIFICATE-----',
  '',
].join('\n');

/** Belongs to OTHER_CERTIFICATE. */
export const OTHER_KEY = [
  '-----BEGIN PRIVATE KEY-----',
  'MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgL1W+WVuhCgC3ju4X',
  'OkJ8WJRp50SFzBoKWDSPW5m5wLKhRANCAAQ5h/iGpQrv94N2CPyCFPopDX/3Au97',
  'qO+zuDE4FcVOZK64retg79CJHhjTi2yL8UX9UCKN78fnh3/ynY657zyv',
  '-----END PRIVATE KEY-----',
  '',
].join('\n');
