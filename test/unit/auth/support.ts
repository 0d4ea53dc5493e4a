/** Recorded with `htpasswd -nbB -C 4` (Apache 2.4.71), but for `a` and `b`, made with npm bcrypt 6. */
export const HASHES = {
  fastCars: '$2y$04$W6AH4uMEPKlvI0WdqqPVcOqd8eAD3mTg1Z0Xtpl6aiKbuxu7tJgXu',
  newCars: '$2y$04$N/AnuC/cTcj49.MxDS7/aOQNp/96qo8QNSWMYBo7mtI2abu2kFBAC',
  kylin: '$2y$04$4LmZIp3gb9U/155gJeOzweRZxWmi/zD2lTnj05kT8q0p0.tw1M9Nu',
  umlauts: '$2y$04$zlPs76noVaBMSnpA/f7TxeFtVotNSgraRTAVuWCifnaG1clyx2dP6',
  a72: '$2y$04$wiY.jonBjJL7/9sBzS.KPO7wvd/lkWqTHXGGZf8SvWESCjEyk8vKe',
  slow: '$2y$06$LwkAy2Cq0ctAr3FZPvfLQucjTyqJTin3AkqD2taP.i7otVm5HQ/5.',
  a: '$2a$04$Z3v3rbGqXzo.MdWbt5vAH.BRv/ov.8YkM4V/8fhOfz8QhhlGxMgg.',
  b: '$2b$04$UcnYHeYaWSWyskGLbu9xz.kHQgOpBi8Cl5h3QQceZeRvaOpXvcf9G',
} as const;

export const PASSWORDS = {
  [HASHES.fastCars]: 'fast cars',
  [HASHES.newCars]: 'new cars',
  [HASHES.kylin]: 'KYLIN',
  [HASHES.umlauts]: 'pä:ss wörd',
  [HASHES.a72]: 'a'.repeat(72),
  [HASHES.slow]: 'slow',
  [HASHES.a]: 'fast cars',
  [HASHES.b]: 'fast cars',
} as const;

export function basic(name: string, password: string): string {
  return `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;
}

export function createTestClock(start = 1_000) {
  let time = start;
  return {
    now: () => time,
    advance(milliseconds: number): void {
      time += milliseconds;
    },
  };
}

/** A gate that holds whoever waits at it until it is opened. */
export function createGate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { passed: promise, open: (): void => resolve() };
}

/** Lets every continuation that can run now run. */
export function settle(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** A users file in memory that the test rewrites, and a timer that the test drives. */
export function createTestFile(lines: readonly string[]) {
  let content: Uint8Array | Error = Buffer.from(lines.join('\n'));
  let reads = 0;
  let end: (() => void) | undefined;
  let following: AbortSignal | undefined;
  return {
    read: async (): Promise<Uint8Array> => {
      reads += 1;
      if (content instanceof Error) throw content;
      return content;
    },
    pause: (signal: AbortSignal): Promise<void> => {
      following = signal;
      return new Promise((resolve) => (end = resolve));
    },
    write(next: readonly string[] | Error): void {
      content = next instanceof Error ? next : Buffer.from(next.join('\n'));
    },
    /** As if so many intervals had passed. */
    async pass(intervals: number): Promise<void> {
      for (let i = 0; i < intervals; i += 1) {
        end?.();
        await settle();
      }
    },
    isFollowed: (): boolean => following?.aborted === false,
    reads: (): number => reads,
  };
}

/** Answers as bcrypt would for the recorded hashes, counts, and waits at the gate if there is one. */
export function createTestCompare() {
  const calls: { password: string; hash: string }[] = [];
  const passwords = new Map<string, string>(Object.entries(PASSWORDS));
  let gate: Promise<void> | undefined;
  return {
    calls,
    compare: async (password: string, hash: string): Promise<boolean> => {
      calls.push({ password, hash });
      await gate;
      return passwords.get(hash) === password;
    },
    holdAt(next: { readonly passed: Promise<void> } | undefined): void {
      gate = next?.passed;
    },
  };
}
