import type { Authenticator, Login, Permissions } from '../auth/authenticator.ts';
import { type KnownNames, projectPolicy } from '../cache/projects.ts';
import type { BodyAccount } from '../common/body-account.ts';
import type { Invalidate } from '../common/events.ts';
import type { Config } from '../config/config.ts';
import type { ClearCacheHandler } from '../http/clear-cache.ts';
import type { PageOrigins } from '../http/page-origins.ts';
import type { Line } from '../features/feature.ts';
import { createClients } from '../line/client.ts';
import type { DroppedHeaders } from '../line/dropped-headers.ts';
import { createExplanation, createLook } from '../line/explain.ts';
import { createAnswerBody, createXmlaHandler } from '../line/handler.ts';
import { createBelievedHit } from '../line/believed-hit.ts';
import { createMemo } from '../line/memo.ts';
import { createPass } from '../line/pass.ts';
import type { Judge, Seen } from '../line/ports.ts';
import { createQueryOf } from '../line/query.ts';
import { createIfError, createReplay, createStands } from '../line/replay.ts';
import { createExamine, createKeepAlive } from '../line/session-step.ts';
import type { RoleSets } from '../roles/role-sets.ts';
import type { Cache } from './cache.ts';
import type { createEngines } from './engines.ts';
import { type Parts, tellTogether } from './parts.ts';

/** Builds the steps of a request below /mdx/xmla, and what else walks them. */
export function createLine(
  config: Config,
  parts: Pick<Parts, 'clock' | 'emit'> & {
    readonly cache: Cache;
    readonly engines: ReturnType<typeof createEngines>;
    readonly authenticator: Pick<Authenticator, 'remembered' | 'checkBehind'> &
      Parameters<typeof createIfError>[0]['authenticator'];
    readonly login: Login;
    readonly permissions: Permissions;
    readonly roleSets: RoleSets;
    readonly names: Pick<KnownNames, 'admit' | 'wouldAdmit' | 'answered'>;
    readonly account: BodyAccount;
    readonly judges: Iterable<Judge>;
    readonly pageOrigins: PageOrigins;
    readonly seen: readonly Seen[];
    readonly invalidate: Invalidate;
    readonly clearCache: ClearCacheHandler;
    readonly dropped: DroppedHeaders;
    readonly addressOf: Parameters<typeof createClients>[0]['addressOf'];
    readonly work: Readonly<Record<'begin' | 'end', () => void>>;
    readonly newId: () => string;
  },
) {
  const { engines, permissions, names, newId } = parts;
  const { queryCache: cache, sessions, memory } = parts.cache;
  const { engineOf, admitBackground } = engines;
  const common = {
    ...parts,
    config,
    cache,
    sessions,
    engineOf,
    policyOf: projectPolicy(config),
    holdBody: memory.hold,
    patience: engines.patience,
    emit: tellTogether(parts.emit),
  };
  const noNames = { admit: names.wouldAdmit };
  const examine = createExamine({ config, permissions, sessions, names });
  const examineAside = createExamine({ config, permissions, sessions, names: noNames });
  const find = sessions.peek;
  const peek = createExamine({ config, permissions, sessions: { find }, names: noNames });
  const queryOf = createQueryOf(common);
  const memo = createMemo({ ...common, secret: newId() });
  const stands = createStands(common);
  const answerBody = createAnswerBody({
    ...common,
    ifError: createIfError({ ...common, stands }),
    memo,
    examine,
    queryOf,
    keepAlive: createKeepAlive(common),
    pass: createPass(common),
  });
  const steps = { ...common, memo, queryOf };
  const look = createLook({ engineOf, queryOf, examine: peek });
  const walked = { ...common, examine, queryOf, look, memory, admitBackground };
  return {
    handle: createXmlaHandler({
      ...steps,
      clientOf: createClients(common),
      replay: createReplay({ ...common, stands }),
      maxBodyBytes: config.limits.body,
      believedHit: createBelievedHit({ ...steps, examine: examineAside }),
      answerBody,
    }),
    explain: createExplanation({ ...common, look }),
    steps: walked satisfies Line,
  };
}
