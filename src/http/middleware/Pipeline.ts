/**
 * Answers every request. Runs steps 1 to 4 of the order of checks (docs/api.md): path and method, admission, the headers of
 * the body, header shapes. Reads the body; `Interpreter` runs steps 5 to 9. What does not wait is plain code, so a
 * request is one fiber of few operations.
 */
import type { IncomingMessage, ServerResponse } from "node:http"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import * as FiberRef from "effect/FiberRef"
import * as FiberSet from "effect/FiberSet"
import * as HashMap from "effect/HashMap"
import * as Runtime from "effect/Runtime"
import * as RuntimeFlags from "effect/RuntimeFlags"
import type * as Tracer from "effect/Tracer"
import { type Failure, InvalidInput, ShuttingDown } from "../../schema/Failure.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { RequestContext } from "../../services/RequestContext.ts"
import { resolveRequestId } from "../../services/RequestId.ts"
import { Settings } from "../../services/Settings.ts"
import { ArrivingBodies } from "../body/ArrivingBodies.ts"
import { checkBodyHeaders } from "../body/BodyHeaders.ts"
import { makeDocuments } from "../handlers/Document.ts"
import { makeHandlers } from "../handlers/Handlers.ts"
import { clientAddressResolver, toNetwork } from "../transport/ClientAddress.ts"
import { RequestQueue } from "../transport/RequestQueue.ts"
import { type HttpResponse, leavesUnreadBody, writeResponse } from "../transport/HttpResponse.ts"
import { countHeader } from "../transport/RawHeaders.ts"
import { makeAccessLog } from "./AccessLog.ts"
import { Admission } from "./Admission.ts"
import { allowsRecording, readClientVersion, readSource } from "./ClientHeaders.ts"
import { toFailure, toResponse } from "./FailureResponse.ts"
import { readHeaders, selectsTestingPlane } from "./HeaderChecks.ts"
import { makeInterpreter, type Serve } from "./Interpreter.ts"
import { addReading } from "./RateLimits.ts"
import { type Ending, initialFindings, type RequestFacts, type RequestFindings } from "./RequestState.ts"
import { endRequestSpan, withRequestSpan } from "./RequestTrace.ts"
import { makeResponseHeaders } from "./ResponseHeaders.ts"
import { allowedMethods, type Call, refuseUnrouted, routes, toPath } from "./Routes.ts"
import { makeWebOrigins } from "./WebOrigins.ts"

/** RFC 9112, 3.2: exactly one Host with HTTP/1.1. */
const checkHost = (message: IncomingMessage): Failure | undefined =>
  message.httpVersion === "1.0" || countHeader(message, "host") === 1
    ? undefined
    : new InvalidInput({ details: { fields: [{ path: "Host", problem: "must be sent exactly once" }] } })

const single = (value: string | ReadonlyArray<string> | undefined): string | undefined =>
  typeof value === "string" ? value : undefined

const noBody = new Uint8Array()

/** Status of a request whose client disconnected; it is logged and never sent. */
const clientClosedRequest = 499

/** A request and its response. */
interface Exchange {
  readonly facts: RequestFacts
  readonly findings: RequestFindings
  readonly target: ServerResponse
  span: Tracer.Span | undefined
  ended: boolean
}

/** Makes the way of each call: its endpoint behind the interpreter, or its document. */
const makeServing = Effect.gen(function* () {
  const interpret = yield* makeInterpreter
  const handlers = yield* makeHandlers
  const serveDocument = yield* makeDocuments
  const serving = new Map<Call, Serve>()
  for (const { calls } of routes.values())
    for (const call of calls.values()) {
      if (call.endpoint === undefined) {
        serving.set(call, ({ facts: { message, path } }) => serveDocument(path, message))
        continue
      }
      const handler = handlers.get(call.endpoint.name)
      if (handler === undefined) return yield* Effect.dieMessage(`${call.endpoint.name} has no handler`)
      serving.set(call, interpret(call.endpoint, call, handler))
    }
  return serving
})

/** The listener of the server: every request gets an id, its checks, one response in one form, and one log line. */
export const makePipeline = Effect.gen(function* () {
  const settings = yield* Settings
  const admission = yield* Admission
  const queue = yield* RequestQueue
  const bodies = yield* ArrivingBodies
  const logRequest = yield* makeAccessLog
  const serving = yield* makeServing
  const clock = yield* Effect.clock
  const { fiberRefs, runtimeFlags } = yield* Effect.runtime<never>()
  const runtime = Runtime.make({
    // The handlers hold their services; a context with all of them would be copied for every request.
    context: Context.empty(),
    fiberRefs,
    // A request always ends with its log line; `handle` makes its work interruptible.
    runtimeFlags: RuntimeFlags.disable(runtimeFlags, RuntimeFlags.Interruption)
  })
  // The end of the scope interrupts requests that outlast the grace period.
  const running = yield* FiberSet.make()
  const origins = makeWebOrigins(settings.webOrigins)
  const responseHeaders = makeResponseHeaders(origins, settings.minCli)
  const resolveAddress = clientAddressResolver(settings.trustedProxies)

  const readFacts = (message: IncomingMessage): RequestFacts => {
    const { headers, method = "", url = "" } = message
    const path = toPath(url)
    const route = routes.get(path)
    const startedAt = clock.unsafeCurrentTimeNanos()
    return {
      message,
      path,
      route,
      call: route?.calls.get(method),
      info: {
        requestId: resolveRequestId(single(headers["x-request-id"])),
        source: readSource(headers),
        clientNetwork: toNetwork(resolveAddress(message)),
        recording: settings.telemetry.enabled && allowsRecording(headers),
        deadlineAt: unsafeMonotonicMillis(clock) + settings.requestDeadlineSeconds * 1_000
      },
      clientVersion: readClientVersion(headers),
      startedAt
    }
  }

  const answerOptions = ({ message: { headers }, path }: RequestFacts, allow: string): HttpResponse => ({
    status: 204,
    headers: {
      ...origins.preflightHeaders(path, allow, headers.origin, headers["access-control-request-method"]),
      allow
    }
  })

  /** Steps 1 to 4, then the call. */
  const answer = (facts: RequestFacts, findings: RequestFindings): Effect.Effect<HttpResponse, Failure> => {
    const { call, info, message, path, route } = facts
    const hostFailure = checkHost(message)
    if (hostFailure !== undefined) return Effect.fail(hostFailure)
    const allow = message.method === "OPTIONS" ? allowedMethods(route, path) : undefined
    if (allow !== undefined) return Effect.succeed(answerOptions(facts, allow))
    const serve = call === undefined ? undefined : serving.get(call)
    if (call === undefined || serve === undefined) return Effect.fail(refuseUnrouted(route))
    const refusal = admission.refusal(call, findings.turnedAway !== undefined)
    if (refusal !== undefined) return Effect.fail(refusal)
    const bodyFailure = call.bodyBound === 0 ? undefined : checkBodyHeaders(message, call)
    if (bodyFailure !== undefined) return Effect.fail(bodyFailure)
    const headers = readHeaders(message, call)
    if (Either.isLeft(headers)) return Effect.fail(headers.left)

    const proceed = (body: Uint8Array): Effect.Effect<HttpResponse, Failure> => {
      const full = admission.takePlace(call)
      if (full !== undefined) return Effect.fail(full)
      findings.holdsPlace = true
      return serve({ facts, findings, headers: headers.right, body, now: unsafeMonotonicMillis(clock) })
    }
    return call.bodyBound === 0
      ? proceed(noBody)
      : Effect.flatMap(bodies.read(message, call.bodyBound, info), proceed)
  }

  /** Ends a request: its span, its log line, its metrics. Only the first end counts. */
  const end = (exchange: Exchange, status: number, code: Ending["code"] = undefined): Effect.Effect<void> => {
    const { facts, findings, span } = exchange
    if (exchange.ended) return Effect.void
    exchange.ended = true
    const ending: Ending = { status, code, endedAt: clock.unsafeCurrentTimeNanos() }
    if (span === undefined) return logRequest(facts, findings, ending)
    endRequestSpan(span, facts, findings, ending)
    return Effect.annotateLogs(logRequest(facts, findings, ending), "trace_id", span.traceId)
  }

  const freePlace = (findings: RequestFindings): void => {
    if (findings.holdsPlace) admission.freePlace()
    findings.holdsPlace = false
  }

  const respond = (
    exchange: Exchange,
    response: HttpResponse,
    rateLimitHeaders: RequestFindings["rateLimitHeaders"],
    code?: Ending["code"]
  ): Effect.Effect<void> => {
    const { facts, target } = exchange
    const draining = admission.isDraining()
    const closing =
      draining ||
      exchange.findings.turnedAway === "crowded" ||
      leavesUnreadBody(facts.message, response.status)
    const headers = { ...response.headers, ...responseHeaders(facts, rateLimitHeaders, closing) }
    writeResponse(facts.message, target, { ...response, headers }, { closing, draining })
    return end(exchange, response.status, code)
  }

  const respondWithFailure = (exchange: Exchange, failure: Failure): Effect.Effect<void> => {
    const { findings } = exchange
    const quota = failure.code === "rate_limited" ? failure.quota : undefined
    const headers =
      quota === undefined ? findings.rateLimitHeaders : addReading(findings.rateLimitHeaders, quota)
    // Without a quota of this service it is the budget for IAM, or IAM itself.
    if (failure.code === "rate_limited") findings.exceededQuota ??= quota?.policy.name ?? "iam"
    return respond(exchange, toResponse(failure), headers, failure.code)
  }

  /** A defect of the response itself: the connection cannot be used any more. */
  const abandon = (exchange: Exchange, cause: Cause.Cause<never>): Effect.Effect<void> => {
    exchange.target.destroy()
    return Effect.zipRight(Effect.logError("Response failed", cause), end(exchange, 500, "internal"))
  }

  const handle = (exchange: Exchange): Effect.Effect<void> => {
    const { facts, findings, target } = exchange
    return Effect.matchCauseEffect(Effect.interruptible(Effect.suspend(() => answer(facts, findings))), {
      onSuccess: (response) => {
        freePlace(findings)
        return respond(exchange, response, findings.rateLimitHeaders)
      },
      onFailure: (cause) => {
        freePlace(findings)
        if (!Cause.isInterruptedOnly(cause))
          return Effect.flatMap(toFailure(cause, facts.call), (failure) =>
            respondWithFailure(exchange, failure)
          )
        // Not by the client: the process ends.
        if (!target.destroyed) return respondWithFailure(exchange, new ShuttingDown())
        return end(exchange, clientClosedRequest)
      }
    }).pipe(Effect.catchAllCause((cause) => abandon(exchange, cause)))
  }

  const start = (exchange: Exchange): void => {
    const { facts, findings, target } = exchange
    const runFork = Runtime.runFork(
      runtime.pipe(
        Runtime.provideService(RequestContext, facts.info),
        Runtime.setFiberRef(
          FiberRef.currentLogAnnotations,
          HashMap.make(["request_id", facts.info.requestId] as const)
        )
      )
    )
    // The client left while the request waited: nothing is begun for it.
    if (target.destroyed) {
      runFork(end(exchange, clientClosedRequest))
      return
    }
    const fiber = runFork(
      withRequestSpan(facts, (span) => {
        exchange.span = span
        return handle(exchange)
      })
    )
    FiberSet.unsafeAdd(running, fiber)
    target.on("close", () => {
      if (target.writableEnded) return
      // Work that may commit something goes on without its client.
      if (findings.committing) runFork(end(exchange, clientClosedRequest))
      else fiber.unsafeInterruptAsFork(FiberId.none)
    })
  }

  /** A defect before the request has a fiber must not end the process. */
  const guard = (target: ServerResponse, run: () => void): void => {
    const done = Either.try(run)
    if (Either.isRight(done)) return
    Runtime.runFork(runtime)(Effect.logError("Request failed", Cause.die(done.left)))
    target.destroy()
  }

  return (message: IncomingMessage, target: ServerResponse): void =>
    guard(target, () => {
      const facts = readFacts(message)
      const findings = initialFindings(selectsTestingPlane(message, facts.call))
      const exchange: Exchange = { facts, findings, target, span: undefined, ended: false }
      // Probes never wait: a busy process is alive.
      if (facts.call?.probe === true) {
        start(exchange)
        return
      }
      const admittance = queue.add(message.socket, () => guard(target, () => start(exchange)))
      if (admittance === "admitted" || admittance === "flooding") return
      // Its refusal ends the connection, after the answers to the requests before it. What has arrived behind it gets none.
      if (admittance === "crowded") message.socket.pause()
      findings.turnedAway = admittance
      start(exchange)
    })
})
