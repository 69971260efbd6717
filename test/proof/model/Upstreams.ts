/** IAM and Ting in memory, with latency and faults. Every call is reported to an observer. */
import { makeIam, production, seedIam } from "../../../sandbox/upstreams/Iam.ts"
import { encodeReply, type Reply, type Seen } from "../../../sandbox/upstreams/Simulator.ts"
import { makeTing } from "../../../sandbox/upstreams/Ting.ts"
import type { Delivery, Send } from "../../../src/layers/upstream/UpstreamTransport.ts"
import type { Random } from "../../durability/Random.ts"
import { seenAt } from "../../support/InMemoryTransport.ts"
import { testApplicationSecret, testWebhookSecret } from "../../support/Settings.ts"
import type { SimulatedTime } from "../../support/SimulatedTime.ts"
import { type FaultKind, type FaultPlan, pathOf, replies, type UpstreamPath } from "./Faults.ts"

export const iamUrl = "https://iam.test"
export const tingUrl = "https://ting.test"
export const tingTypes = ["music.trigger.fired", "music.trigger.expired"]

/** The server process that makes a call. */
export interface Caller {
  readonly name: string
  readonly isAlive: () => boolean
  readonly kill: () => void
}

export interface UpstreamCall {
  readonly caller: Caller
  readonly path: UpstreamPath
  readonly seen: Seen
  /** Fields of a form body. */
  readonly form: URLSearchParams
  readonly fault: FaultKind | undefined
}

export interface Observer {
  /** Whether this introspection is the first one of a token that this server has just been given. */
  readonly isCompleting: (caller: Caller, path: UpstreamPath, form: URLSearchParams) => boolean
  /** The server sends the call. */
  readonly onSent: (call: UpstreamCall) => void
  /** The upstream executed it, whatever becomes of the answer. */
  readonly onHandled: (call: UpstreamCall, reply: Reply) => void
  /** The server got the answer of the upstream itself, or a fault. */
  readonly onDelivered: (call: UpstreamCall, reply: Reply | undefined) => void
}

/** Milliseconds on the way to an upstream, and as many at most on the way back. */
const latency = { least: 1, most: 40 } as const

const isBefore = (fault: FaultKind | undefined): boolean =>
  fault === "refused" || fault === "inactive" || fault?.endsWith(" before") === true

export const makeUpstreams = (time: SimulatedTime, random: Random, plan: FaultPlan, observer: Observer) => {
  const iam = makeIam({ now: time.now })
  const seeded = seedIam(iam.controls, {
    musicSecret: testApplicationSecret,
    webhookSecret: testWebhookSecret
  })
  // Ting's own calls to IAM are neither late nor lost: their faults are those of Ting.
  const ting = makeTing({
    now: time.now,
    iamUrl,
    appSecret: seeded.production.tingSecret,
    fetch: (url, init) => {
      const reply = iam.handle(
        seenAt(time.now(), {
          origin: iamUrl,
          path: String(url).slice(iamUrl.length),
          method: init?.method === "GET" ? "GET" : "POST",
          headers: Object.fromEntries(new Headers(init?.headers)),
          body: typeof init?.body === "string" ? init.body : undefined,
          maxResponseBytes: Number.POSITIVE_INFINITY,
          deadlineAt: Number.POSITIVE_INFINITY
        })
      )
      return Promise.resolve(new Response(encodeReply(reply, {}).body.toString(), { status: reply.status }))
    }
  })
  for (const plane of [production, seeded.environment.environmentId])
    for (const type of tingTypes) ting.controls.registerType(plane, "music", type)

  let calls = 0
  let faults = 0

  const deliveryOf = (reply: Reply, own: Readonly<Record<string, string>>): Delivery => {
    const { body, headers } = encodeReply(reply, { date: new Date(time.now()).toUTCString(), ...own })
    return {
      _tag: "Answered",
      status: reply.status,
      headers: Object.fromEntries(
        Object.entries({ ...headers }).map(([name, value]) => [name.toLowerCase(), value])
      ),
      body
    }
  }

  /** A false "inactive" is kept for the introspection of a token that was just issued. */
  const takeFault = (caller: Caller, path: UpstreamPath, form: URLSearchParams) => {
    const fault = plan.take(path)
    if (fault !== "inactive" || observer.isCompleting(caller, path, form)) return fault
    plan.add({ path: "introspect", after: 0, kind: "inactive" })
    return undefined
  }

  const sendFrom =
    (caller: Caller): Send =>
    (request, settle) => {
      calls += 1
      const path = pathOf(new URL(request.path, request.origin).pathname)
      const seen = seenAt(time.now(), request)
      const form = new URLSearchParams(seen.body.toString())
      const fault = takeFault(caller, path, form)
      if (fault !== undefined) faults += 1
      const call: UpstreamCall = { caller, path, seen, form, fault }
      const isIam = request.origin === iamUrl
      let over = false
      const pause = () => latency.least + random.next() * (latency.most - latency.least)
      const end = (delivery: Delivery, reply?: Reply) => {
        if (over || !caller.isAlive()) return
        over = true
        observer.onDelivered(call, reply)
        settle(delivery)
      }
      observer.onSent(call)

      const execute = async (): Promise<Reply> => {
        const reply = await (isIam ? iam.handle(seen) : ting.handle(seen))
        observer.onHandled(call, reply)
        return reply
      }
      const answer = (reply: Reply, own?: Reply) =>
        time.after(pause(), () => end(deliveryOf(reply, isIam ? iam.decorate(seen) : ting.decorate()), own))
      const conclude = (own: Reply | undefined): void => {
        switch (fault) {
          case "refused":
            end({ _tag: "NotSent", code: "ECONNREFUSED" })
            return
          case "lost before":
          case "lost after":
            end({ _tag: "Lost", code: "ECONNRESET", withinResponse: false })
            return
          case "hang before":
          case "hang after":
            time.after(request.deadlineAt - time.now(), () => end({ _tag: "Late" }))
            return
          case "kill before":
          case "kill after":
            caller.kill()
            return
          default:
            break
        }
        const instead = fault === undefined ? undefined : replies[fault]
        if (instead !== undefined) answer(instead)
        else if (own !== undefined) answer(own, own)
      }
      // A call that the server gives up was sent all the same.
      time.after(pause(), () => {
        if (isBefore(fault)) conclude(undefined)
        else void execute().then(conclude)
      })
      return () => {
        over = true
      }
    }

  return {
    iam,
    ting,
    seeded,
    sendFrom,
    counts: () => ({ calls, faults })
  }
}

export type Upstreams = ReturnType<typeof makeUpstreams>
