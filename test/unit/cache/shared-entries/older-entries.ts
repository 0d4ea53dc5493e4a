/** Values of layout version 2, byte for byte as the gateway made them that had no other. */

/** The key of both. */
export const KEY = 'BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc';
/** When their fill began. */
export const BEGAN = 1_700_000_000_000;

/** An answer of 25 bytes, as it is. */
export const PLAIN = [
  'TURYRwIAALgAAAGLz+VoAAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcH/wSelnsiY29udGVudFR5cGUi',
  'OiJ0ZXh0L3htbDsgY2hhcnNldD11dGYtOCIsImNvbnRlbnRMYW5ndWFnZSI6ImVuIiwibGlmZXRpbWUiOjM2MDAw',
  'MDAsImVuZ2luZU1pbGxpc2Vjb25kcyI6MTIuNSwiYm9keUxlbmd0aCI6MjUsInNlc3Npb24iOnsiYXQiOjYsImVu',
  'Y29kaW5nIjoidXRmLTgifSwic2Vzc2lvbkhlYWRlciI6dHJ1ZX08cm9vdD48cm93PjE8L3Jvdz48L3Jvb3Q+',
].join('');

/** An answer of 2413 bytes, compressed. */
export const PACKED = [
  'TURYRwIBALoAAAGLz+VoAAcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHWOpL/XsiY29udGVudFR5cGUi',
  'OiJ0ZXh0L3htbDsgY2hhcnNldD11dGYtOCIsImNvbnRlbnRMYW5ndWFnZSI6ImVuIiwibGlmZXRpbWUiOjM2MDAw',
  'MDAsImVuZ2luZU1pbGxpc2Vjb25kcyI6MTIuNSwiYm9keUxlbmd0aCI6MjQxMywic2Vzc2lvbiI6eyJhdCI6Niwi',
  'ZW5jb2RpbmciOiJ1dGYtOCJ9LCJzZXNzaW9uSGVhZGVyIjp0cnVlfSi1L/0AWP0AALg8cm9vdD48cm93PjE8L3Jv',
  'dy9yb290PgEAp3K/LAE=',
].join('');
