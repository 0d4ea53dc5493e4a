import { ServerResponse, type IncomingMessage } from 'node:http';
import type { Clock } from '../clock.ts';
import type { EngineConfig } from '../config/config.ts';
import type { Emit } from '../events.ts';
import { watchConnection, type ConnectionWatch } from '../proxy/connection.ts';
import { requestHeaders } from '../proxy/forwarded-headers.ts';
import { guardConnection, readWhatCame } from '../proxy/kept-connection.ts';
import { proxyThrough } from '../proxy/proxy.ts';
import { endOnSilence } from '../proxy/silence.ts';
import type { UpstreamAnswer } from '../proxy/upstream-answer.ts';
import { NoAnswer } from '../proxy/upstream-failure.ts';
import type { AnswerHead } from '../query-cache/query.ts';
import type { Admission } from './admission.ts';
import type { Engine, EngineAddressee, PassThroughClient } from './engine.ts';
import { engineFailure, EngineSilence, NotConnected } from './engine-failure.ts';
import type { Replica, Replicas } from './replicas.ts';
import { guardWatch, relayWatched, WatchRefusal, type GuardedWatch } from './watched-answer.ts';

/** Passes requests through to an engine: the client's own headers, its pace, its end. */
export function createPassThrough(options: {
  config: EngineConfig;
  replicas: Replicas;
  admission: Admission;
  clock: Clock;
  emit: Emit;
  authorizationOf: (addressee: EngineAddressee) => string | undefined;
  acceptedHead: (answer: UpstreamAnswer) => AnswerHead;
}): Engine['passThrough'] {
  const { config, replicas, admission, clock, emit, acceptedHead } = options;

  /** Tells the failure of one exchange, in the log, to the watch and then to the client. */
  function failer(project: string, client: PassThroughClient, watch: GuardedWatch | undefined) {
    let failed = false;
    let told: Promise<void> | undefined;

    async function tell(error: unknown): Promise<void> {
      let said = error;
      if (error instanceof WatchRefusal) said = error.cause;
      else {
        const failure = engineFailure(error);
        said = failure;
        if (!client.signal.aborted && failure.reason !== 'client-gone') {
          emit({ type: 'engine-failed', project, reason: failure.reason, error });
        }
      }
      if (watch !== undefined) await watch.giveUp();
      client.fail(said);
    }

    return {
      /** One failure shows in several events; the first counts. */
      fail(error: unknown): void {
        if (failed) return;
        failed = true;
        told = tell(error);
      },
      /** Resolves when what failed, if anything did, was told. */
      told: () => told,
    };
  }

  return async function passThrough(addressee, client, body, watch) {
    const { request } = client;
    const project = addressee.project ?? '';
    const connections: ConnectionWatch[] = [];
    const sent = () => connections.some((connection) => connection.made());
    const guarded = watch === undefined ? undefined : guardWatch(watch, sent);
    const failure = failer(project, client, guarded);
    let leave: () => void;
    try {
      const { user } = addressee;
      leave =
        admission.tryAdmit(user, client.signal) ?? (await admission.admit(user, client.signal));
    } catch (error) {
      await guarded?.giveUp();
      client.fail(error);
      return;
    }
    const began = clock.now();
    const authorization = options.authorizationOf(addressee);
    request.headers = requestHeaders(request.headers, authorization, body?.length);
    if (watch !== undefined) request.headers['accept-encoding'] = 'identity';
    if (config.url.length > 1) makeRoomForListeners(client, config.url.length);
    try {
      await replicas.reach(addressee.replica, client.signal, (replica, connectLimit) => {
        request.url = replica.target(addressee.project, addressee.query);
        const { fail } = failure;
        return exchange({ replica, connectLimit, body, client, guarded, connections, fail });
      });
    } catch (error) {
      failure.fail(error);
    } finally {
      await failure.told();
      // A client that went away may leave nothing behind that tells of it.
      await guarded?.giveUp();
      leave();
      emit({ type: 'engine-answered', project, milliseconds: clock.now() - began });
    }
  };

  /**
   * One attempt at one replica. Resolves when it is over, however it ended.
   * @throws NotConnected when nothing was sent, and nobody was told
   */
  async function exchange(attempt: {
    replica: Replica;
    connectLimit: number | undefined;
    body: Buffer | undefined;
    client: PassThroughClient;
    guarded: GuardedWatch | undefined;
    /** Of all attempts; this one adds its own. */
    connections: ConnectionWatch[];
    fail: (error: unknown) => void;
  }): Promise<void> {
    const { replica, client, guarded, fail } = attempt;
    await readWhatCame(replica.agent);
    // The proxy is not told of a client that went away before.
    client.signal.throwIfAborted();
    const { request } = client;
    const response = guarded === undefined ? client.response : standIn(client);
    let connection: ConnectionWatch | undefined;
    let notConnected: NotConnected | undefined;
    let answered = false;
    let relayed: Promise<void> | undefined;

    await proxyThrough({
      request,
      response,
      body: attempt.body,
      origin: replica.origin,
      agent: replica.agent,
      onRequest(sent) {
        connection = watchConnection(sent, attempt.connectLimit);
        attempt.connections.push(connection);
        guardConnection(sent);
        endOnSilence(sent, config.timeout, () => new EngineSilence());
        // Nothing else tells of an engine that changes the protocol without being asked to.
        sent.once('close', () => {
          if (!answered && notConnected === undefined) fail(new NoAnswer());
        });
      },
      onAnswer(answer) {
        answered = true;
        if (guarded === undefined) return relay(answer, client, fail);
        answer.on('error', () => {});
        relayed = relayAccepted(answer, guarded).catch(fail);
      },
      onError(error) {
        // What the loop over a watched answer throws comes after what was read before.
        if (relayed !== undefined) return;
        if (connection?.failed() === true) notConnected ??= new NotConnected(error);
        else fail(error);
      },
    });
    await relayed;
    if (notConnected !== undefined) throw notConnected;

    async function relayAccepted(answer: IncomingMessage, watch: GuardedWatch): Promise<void> {
      await relayWatched(answer, acceptedHead(answer), client, watch);
    }
  }

  /** In one turn: the proxy must find the response ended when its answer is refused. */
  function relay(
    answer: IncomingMessage,
    client: PassThroughClient,
    fail: (error: unknown) => void,
  ): void {
    answer.on('error', fail);
    try {
      client.open(acceptedHead(answer));
      const { response } = client;
      // As `pipe` does it, with a third of its listeners: the proxy ends either side when the other breaks off.
      answer.on('data', (chunk: Buffer) => {
        client.sent(chunk.length);
        if (response.write(chunk)) return;
        answer.pause();
        response.once('drain', () => answer.resume());
      });
      answer.once('end', () => response.end());
    } catch (error) {
      answer.destroy();
      fail(error);
    }
  }
}

/**
 * What the proxy is given for the response of a watched answer, since it destroys a response whose answer breaks
 * off, before the client could be told. It closes when the client's does, which ends the request.
 */
function standIn({ request, response }: PassThroughClient): ServerResponse {
  const stand = new ServerResponse(request);
  response.once('close', () => stand.emit('close'));
  return stand;
}

/** Each attempt leaves listeners of the proxy on both. */
function makeRoomForListeners({ request, response }: PassThroughClient, attempts: number): void {
  for (const emitter of [request, response]) {
    emitter.setMaxListeners(emitter.getMaxListeners() + 4 * attempts);
  }
}
