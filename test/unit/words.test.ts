import { expect, test } from '@jest/globals';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** Words that have to be decoded, with what to say in their place. */
const WORDS: readonly (readonly [word: RegExp, say: string])[] = [
  [/\bwhoever\b/i, 'the user, the caller, the part that …'],
  [/\b(?:any|some)body\b/i, 'a user, a client, a person'],
  // The value of cache.client_control keeps its name.
  [/(?<!['`])\bnobody\b(?!['`,])/i, 'no client, no gateway; or say it without a person'],
  [/\b(?:of|as) before\b(?! (?:it|they|that)\b)/i, 'earlier, current'],
  [/\bmanieth\b/i, 'every n-th'],
  [/\b(?:creditors?|debts?)\b/i, 'waiters, pending purges'],
  [/\b(?:strangers?|lonely)\b/i, 'other users, alone'],
  [/\b(?:lessons?|taught|teach(?:es)?)\b/i, 'what is remembered, tells'],
  [/\bcrew\b/i, 'worker pool, dependencies'],
];

function filesIn(folder: string, ending: RegExp): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => ending.test(path))
    .map((path) => join(folder, path));
}

test('code, messages and documents are in plain words', () => {
  const files = [
    'README.md',
    ...filesIn('docs', /\.md$/),
    ...filesIn('src', /\.(?:tsx?|yaml|html)$/),
  ];
  const found = files.flatMap((file) =>
    readFileSync(join(ROOT, file), 'utf8')
      .split('\n')
      .flatMap((line, at) =>
        WORDS.filter(([word]) => word.test(line)).map(
          ([word, say]) => `${file}:${at + 1}: ${word.exec(line)?.[0]} (say: ${say})`,
        ),
      ),
  );
  expect(found).toEqual([]);
});

/** Beginnings of translated sentences: what follows them has no subject, or has it at the end. */
const TRANSLATED = /^(?:Of|So many|The same|By|In which|What|Who|That)\b/;
const DOC_COMMENT = /\/\*\*\s*(?:\n\s*\*\s*)?([^\n]*)/g;

test('doc comments begin with their noun or their verb', () => {
  const found = filesIn('src', /\.tsx?$/).flatMap((file) =>
    [...readFileSync(join(ROOT, file), 'utf8').matchAll(DOC_COMMENT)]
      .filter(([, first = '']) => TRANSLATED.test(first))
      .map(([, first]) => `${file}: ${first}`),
  );
  expect(found).toEqual([]);
});

test('comments end within 100 columns', () => {
  const found = filesIn('src', /\.tsx?$/).flatMap((file) =>
    readFileSync(join(ROOT, file), 'utf8')
      .split('\n')
      .flatMap((line, at) =>
        /^\s*(?:\/\*|\*|\/\/)|\s\/\/ /.test(line) && line.length > 100
          ? [`${file}:${at + 1}: ${line.length}`]
          : [],
      ),
  );
  expect(found).toEqual([]);
});
