/** A world that has all kinds of clients: what each of them wanted and got, and which of them caused each call to IAM. */
import { LogLevel } from "effect"
import { production } from "../../../sandbox/upstreams/Iam.ts"
import { addActor, type Tokens, tokensOf } from "../../world/Calls.ts"
import { type Answer, isSuccess, requests, retryAfterOf, type Sent } from "../../world/Driver.ts"
import { mostIamCalls } from "../../world/Oracle.ts"
import type { UpstreamCall } from "../../world/Upstreams.ts"
import * as Worlds from "../../world/World.ts"

export const second = 1_000
export const minute = 60_000

/** Runs beside everything else. */
export const start = (run: () => Promise<unknown>): void => void run()

/** Operations that keep a session, and those that use it. */
export type Group = "session" | "use"

/** What an honest client wants; it may take several requests. */
interface Operation {
  readonly kind: string
  readonly group: Group
  readonly at: number
  attempts: number
  /** Whether each call at the time that the refusal before it gave was served. */
  onTime: Array<boolean>
  /** Set when it was served, or the client gave up. */
  end?: { readonly at: number; readonly isServed: boolean }
}

/** 1 of none. */
const partOf = (all: ReadonlyArray<unknown>, some: ReadonlyArray<unknown>): number =>
  all.length === 0 ? 1 : some.length / all.length

const makeLedger = (now: () => number) => {
  let operations: Array<Operation> = []
  const lost = new Set<string>()

  const ofKind = (kind: string, group: Group) =>
    operations.filter((one) => one.kind === kind && one.group === group)
  const isAtOnce = ({ attempts, end }: Operation) => end?.isServed === true && attempts === 1

  return {
    begin: (kind: string, group: Group): Operation => {
      const operation: Operation = { kind, group, at: now(), attempts: 0, onTime: [] }
      operations.push(operation)
      return operation
    },
    /** Whether the operation is over. */
    attempted: (operation: Operation, answer: Answer): boolean => {
      if (operation.attempts > 0) operation.onTime.push(isSuccess(answer))
      operation.attempts += 1
      const isOver = answer.status !== 429 && answer.status !== 503
      if (isOver) operation.end = { at: now(), isServed: isSuccess(answer) }
      return isOver
    },
    lost,
    /** What one kind of client got for one group of its operations. Parts are from 0 to 1, waits in seconds. Of a kind that did nothing, nothing is known. `patience`: milliseconds after which an open operation counts as refused. */
    rowOf: (kind: string, group: Group, patience: number) => {
      const all = ofKind(kind, group)
      const ended = all.filter(({ at, end }) => end !== undefined || now() - at > patience)
      if (ended.length === 0) return undefined
      const served = ended.filter(({ end }) => end?.isServed === true)
      const late = served.filter((one) => !isAtOnce(one)).map(({ at, end }) => (end?.at ?? at) - at)
      late.sort((one, other) => one - other)
      const onTime = all.flatMap((one) => one.onTime)
      return {
        /** Of the operations, those that were not given up and, at the end, not open for longer than the patience. */
        served: partOf(ended, served),
        /** Of those that were refused at first: from the first request until the service. */
        p99Wait: (late[Math.min(late.length - 1, Math.floor(late.length * 0.99))] ?? 0) / second,
        /** Of the calls at the time of their `Retry-After`, those that were served. */
        onTime: partOf(onTime, onTime.filter(Boolean))
      }
    },
    /** From now on. What ended before was the way to the start; what is open counts from its first request. */
    measureFromNow: () => {
      operations = operations.filter(({ end }) => end === undefined)
      for (const operation of operations) operation.onTime = []
    }
  }
}

/** The instances share what the budget allows. */
export const openWorld = async (seed: number, instances = 1) => {
  const settings = { logLevel: LogLevel.None, iam: { callsPerMinute: 110 / instances } }
  const world = await Worlds.openWorld({ seed, instances, settings })
  const { random, time, upstreams } = world
  const { controls } = upstreams.iam
  const ledger = makeLedger(time.now)
  /** The kind of client that presented, or was given, a credential. */
  const owners = new Map<string, string>()
  let [keys, measuredFrom] = [0, 0]
  let [serving] = world.instances

  const send = async (address: string, request: Sent): Promise<Answer> => {
    if (serving === undefined) throw new Error("no instance")
    return serving.send(address, request)
  }

  const own = (credential: string, kind: string): string => {
    owners.set(credential, kind)
    return credential
  }
  const ownTokens = (answer: Answer, kind: string): Tokens | undefined => {
    const tokens = tokensOf(answer)
    for (const token of Object.values(tokens ?? {})) own(token, kind)
    return tokens
  }
  const kindOf = ({ form, plane }: UpstreamCall) =>
    [...form.values(), plane].map((credential) => owners.get(credential)).find((kind) => kind !== undefined)
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
    ownTokens,
    mint,
    newKey,
    send,
    /** All requests go to another process from now on: to the second one, or to one that follows the first. */
    moveOn: async (): Promise<void> => {
      const [first, second] = world.instances
      serving = second ?? world.start()
      if (second === undefined) await first?.close()
    },
    measureFromNow: () => {
      measuredFrom = time.now()
      ledger.measureFromNow()
    },
    /** The most calls of these kinds to one path of IAM in any minute; of all kinds without names. */
    mostCallsOf: (kinds?: ReadonlyArray<string>) =>
      mostIamCalls(
        upstreams.calls.filter(
          (call) =>
            call.at >= measuredFrom && (kinds === undefined || kinds.includes(kindOf(call) ?? "service"))
        )
      ),
    refusedByIam: () =>
      upstreams.calls.filter(({ status, upstream }) => upstream === "iam" && status === 429).length,
    /** Credentials that no one was given; IAM's calls for them count for the kind. */
    invent: (prefix: "oat" | "ort" | "oac", kind: string): string =>
      own(`${prefix}_${random.text(43)}`, kind),
    /** A session of an actor that does not mind its manners; undefined when the login was refused. */
    sessionOf: async (kind: string, actor: string, address: string): Promise<Tokens | undefined> =>
      ownTokens(await send(address, requests.login(mint(actor, kind), newKey())), kind),
    /**
     * Sends for ever, from a time on; `pause`: mean milliseconds between two requests. A patient loop brings each refused request back on
     * time, and makes another one only when none is due.
     */
    loop: async (
      pause: number,
      addressOf: () => string,
      request: () => Sent,
      { at = 0, isPatient = false } = {}
    ): Promise<never> => {
      let waiting: ReadonlyArray<{ readonly at: number; readonly request: Sent }> = []
      const sendOne = async () => {
        const due = waiting.find((one) => one.at <= time.now())
        waiting = waiting.filter((one) => one !== due)
        const sent = due?.request ?? request()
        const answer = await send(addressOf(), sent)
        if (!isPatient || answer.status !== 429) return
        waiting = [...waiting, { at: time.now() + (retryAfterOf(answer) ?? 1) * second, request: sent }]
      }
      await time.sleep(at + random.below(pause))
      for (;;) {
        start(sendOne)
        // In step with the ends of its own calls it would always be first.
        await time.sleep(pause * (0.5 + random.next()))
      }
    }
  }
}

export type World = Awaited<ReturnType<typeof openWorld>>
