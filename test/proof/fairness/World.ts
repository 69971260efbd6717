/** A world that has all kinds of clients, and knows which of them caused each call to IAM. */
import * as LogLevel from "effect/LogLevel"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import { addActor } from "../../world/Calls.ts"
import { type Answer, bodyOf, codeOf, isSuccess, requests, type Sent } from "../../world/Driver.ts"
import type { UpstreamCall } from "../../world/Upstreams.ts"
import * as Worlds from "../../world/World.ts"
import { makeLedger } from "./Ledger.ts"

export interface Tokens {
  readonly access: string
  readonly refresh: string
}

/** The credentials in a text. */
const credentialsIn = (text: string): ReadonlyArray<string> =>
  text.match(/(?:oat|ort|oac|ask)_[A-Za-z0-9_-]{43}/g) ?? []

export const resultOf = (answer: Answer): string =>
  isSuccess(answer) ? "served" : (codeOf(answer) ?? String(answer.status))

export const tokensOf = (answer: Answer): Tokens | undefined => {
  const { access_token, refresh_token } = bodyOf(answer)
  return typeof access_token === "string" && typeof refresh_token === "string"
    ? { access: access_token, refresh: refresh_token }
    : undefined
}

/** Runs beside everything else. */
export const start = (run: () => Promise<unknown>): void => void run()

export type Latency = (call: UpstreamCall) => number

export const openWorld = async (
  seed: number,
  {
    latency,
    settings = {}
  }: { readonly latency?: Latency; readonly settings?: Worlds.WorldOptions["settings"] } = {}
) => {
  /** The kind of client that presented, or was given, a credential. */
  const owners = new Map<string, string>()
  const onHandled = (
    call: UpstreamCall,
    reply: { readonly status: number; readonly body?: unknown }
  ): void => {
    if (call.upstream !== "iam") return
    const presented = [...credentialsIn(call.seen.body.toString()), call.plane]
    const kind = presented.map((credential) => owners.get(credential)).find((owner) => owner !== undefined)
    if (kind !== undefined)
      for (const issued of credentialsIn(JSON.stringify(reply.body ?? ""))) owners.set(issued, kind)
    ledger.iamCalled({
      at: call.at,
      kind: kind ?? "service",
      path: `${call.plane} ${call.path}`,
      status: reply.status
    })
  }
  const world = await Worlds.openWorld({
    seed,
    delivery: {},
    settings: { logLevel: LogLevel.None, ...settings },
    observers: [{ onHandled }],
    ...(latency === undefined ? {} : { latency: { back: latency } })
  })
  const { random, time, upstreams } = world
  const { controls, handle } = upstreams.iam
  const ledger = makeLedger(time.now)
  let foreign = 0
  let keys = 0

  /** Names the kind of client that a credential belongs to. */
  const own = (credential: string, kind: string): string => {
    owners.set(credential, kind)
    return credential
  }
  /** A short-lived token of an actor of the organisation. */
  const mint = (actor: string, kind: string): string =>
    own(controls.mintSlt(production, { appId: "music", actor: addActor(world, actor) }), kind)
  /** A key that no other caller has. */
  const newKey = (): string => {
    keys += 1
    return `key-${String(keys).padStart(8, "0")}-${random.text(12)}`
  }

  return {
    ...world,
    ledger,
    own,
    mint,
    newKey,
    /** Credentials that no one was given; IAM's calls for them count for the kind. */
    invent: (prefix: "oat" | "ort" | "oac" | "ask", kind: string): string =>
      own(`${prefix}_${random.text(43)}`, kind),
    /** The secret of the testing plane. */
    secretFor: (kind: string): string => own(upstreams.seeded.environment.musicSecret, kind),
    /** A session of an actor that does not mind its manners; undefined when the login was refused. */
    sessionOf: async (kind: string, actor: string, address: string): Promise<Tokens | undefined> =>
      tokensOf(await world.send(address, requests.login(mint(actor, kind), newKey()))),
    /** Sends for ever, from a time on; `pause`: mean milliseconds between two requests. */
    loop: async (
      kind: string,
      name: string,
      pause: number,
      address: () => string,
      request: () => Sent,
      from = 0
    ): Promise<never> => {
      await time.sleep(from + random.below(pause))
      for (;;) {
        start(async () => ledger.sent(kind, name, resultOf(await world.send(address(), request()))))
        // In step with the ends of its own calls it would always be first.
        await time.sleep(pause * (0.5 + random.next()))
      }
    },
    /** A call of another instance of the application, which this one does not know of. */
    callFromElsewhere: (path: string): void => {
      foreign += 1
      const authorization = `Basic ${Buffer.from(`music:${foreign}`).toString("base64")}`
      handle({
        at: time.now(),
        method: "POST",
        path: `/api/v1${path}`,
        query: new URLSearchParams(),
        headers: new Map([["authorization", [authorization]]]),
        body: Buffer.from(""),
        status: undefined
      })
    }
  }
}

export type World = Awaited<ReturnType<typeof openWorld>>
