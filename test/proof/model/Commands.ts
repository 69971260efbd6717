/** The commands of a sequence as plain data, how they are generated, and how they read. */
import * as FastCheck from "effect/FastCheck"
import { faultKinds, outageKinds, upstreamPaths, type FaultKind, type UpstreamPath } from "./Faults.ts"
import { clientFaultKinds, type ClientFaultKind } from "./Programs.ts"

/** A and B are two programs of one machine. D is not written with the client. */
export const names = ["A", "B", "C", "D"] as const
export type Name = (typeof names)[number]

export type Command =
  | { readonly do: "login"; readonly who: Name; readonly slt: "new" | "same" | "public id" }
  | { readonly do: "me" | "session" | "subscribe"; readonly who: Name }
  | { readonly do: "ting"; readonly who: Name; readonly again: boolean }
  | { readonly do: "together"; readonly who: Name; readonly callers: number }
  | { readonly do: "logout"; readonly who: Name; readonly forget: boolean }
  /** The refresh of the stored session as the client would send it, by several callers at once over both servers. */
  | { readonly do: "same refresh"; readonly who: Name; readonly callers: number }
  /** The same for the sessions of all programs at once. */
  | { readonly do: "all refresh" }
  /** An attacker, or a broken client: another key than the derived one. */
  | { readonly do: "stolen refresh"; readonly who: Name; readonly token: "stored" | "spent" }
  /** The refresh token of one program under a key that another one has used. */
  | { readonly do: "crossed refresh"; readonly who: Name; readonly other: Name }
  /** The key of another program's login with a short-lived token of one's own, or its spent token under a key of one's own. */
  | { readonly do: "crossed login"; readonly who: Name; readonly other: Name; readonly what: "key" | "slt" }
  | { readonly do: "wrong plane"; readonly who: Name }
  | { readonly do: "wait"; readonly seconds: number }
  | {
      readonly do: "revoke login" | "revoke access" | "leave organisation" | "join organisation"
      readonly who: Name
    }
  | { readonly do: "switch plane"; readonly who: Name }
  | { readonly do: "kill server"; readonly server: 0 | 1 }
  | { readonly do: "kill program"; readonly who: Name }
  | {
      readonly do: "fault"
      readonly path: UpstreamPath | "any"
      readonly after: number
      readonly kind: FaultKind
    }
  | { readonly do: "outage"; readonly path: UpstreamPath; readonly kind: FaultKind }
  | { readonly do: "mend" }
  | {
      readonly do: "client fault"
      readonly who: Name
      readonly after: number
      readonly kind: ClientFaultKind
    }
  /** Everything works again, and each program tries until it has its session. */
  | { readonly do: "settle" }

export interface Sequence {
  /** Programs that log in first. */
  readonly begin: ReadonlyArray<Name>
  /** Calls to IAM that one server may make a minute and path. */
  readonly budget: number
  readonly random: number
  readonly commands: ReadonlyArray<Command>
}

const { constant, constantFrom, integer, record, boolean } = FastCheck

const who = constantFrom(...names)
const commandOf = <A extends Command["do"], B extends object>(
  name: A,
  facts: { readonly [K in keyof B]: FastCheck.Arbitrary<B[K]> }
) => record({ do: constant(name), ...facts })

const second = 1
const minute = 60
const day = 24 * 60 * minute

const command = FastCheck.oneof(
  { weight: 5, arbitrary: commandOf("login", { who, slt: constantFrom("new", "new", "same", "public id") }) },
  { weight: 12, arbitrary: commandOf("me", { who }) },
  { weight: 1, arbitrary: commandOf("session", { who }) },
  { weight: 2, arbitrary: commandOf("subscribe", { who }) },
  { weight: 4, arbitrary: commandOf("ting", { who, again: boolean() }) },
  { weight: 6, arbitrary: commandOf("together", { who, callers: integer({ min: 2, max: 5 }) }) },
  { weight: 3, arbitrary: commandOf("logout", { who, forget: boolean() }) },
  { weight: 4, arbitrary: commandOf("same refresh", { who, callers: integer({ min: 1, max: 4 }) }) },
  { weight: 2, arbitrary: record({ do: constant("all refresh") }) },
  { weight: 1, arbitrary: commandOf("stolen refresh", { who, token: constantFrom("stored", "spent") }) },
  { weight: 2, arbitrary: commandOf("crossed refresh", { who, other: who }) },
  { weight: 2, arbitrary: commandOf("crossed login", { who, other: who, what: constantFrom("key", "slt") }) },
  { weight: 2, arbitrary: commandOf("wrong plane", { who }) },
  {
    weight: 14,
    arbitrary: commandOf("wait", {
      seconds: constantFrom(
        second,
        5 * second,
        minute,
        9 * minute,
        11 * minute,
        28 * minute,
        29 * minute + 15,
        29 * minute + 15,
        29 * minute + 15,
        31 * minute,
        31 * minute,
        3 * day
      )
    })
  },
  { weight: 1, arbitrary: commandOf("revoke login", { who }) },
  { weight: 5, arbitrary: commandOf("revoke access", { who }) },
  { weight: 1, arbitrary: commandOf("leave organisation", { who }) },
  { weight: 1, arbitrary: commandOf("join organisation", { who }) },
  { weight: 2, arbitrary: commandOf("switch plane", { who }) },
  { weight: 3, arbitrary: commandOf("kill server", { server: constantFrom(0, 1) }) },
  { weight: 2, arbitrary: commandOf("kill program", { who }) },
  {
    weight: 18,
    arbitrary: commandOf("fault", {
      path: constantFrom("any", "any", "tokens", "introspect", "introspect", ...upstreamPaths),
      after: integer({ min: 0, max: 6 }),
      kind: constantFrom<FaultKind>(...faultKinds, "inactive")
    })
  },
  {
    weight: 3,
    arbitrary: commandOf("outage", {
      path: constantFrom(...upstreamPaths, "introspect"),
      kind: constantFrom(...outageKinds)
    })
  },
  { weight: 3, arbitrary: record({ do: constant("mend") }) },
  {
    weight: 8,
    arbitrary: commandOf("client fault", {
      who,
      after: integer({ min: 0, max: 2 }),
      kind: constantFrom(...clientFaultKinds)
    })
  },
  { weight: 4, arbitrary: record({ do: constant("settle") }) }
) as FastCheck.Arbitrary<Command>

/** Commands of one sequence. */
const length = { minLength: 12, maxLength: 30 } as const

export const sequence: FastCheck.Arbitrary<Sequence> = record({
  begin: FastCheck.subarray<Name>(["A", "C", "D"], { minLength: 1 }),
  budget: constantFrom(110, 110, 110, 15, 4),
  random: integer({ min: 1, max: 1_000_000 }),
  commands: FastCheck.array(command, { ...length, size: "max" })
})

const spanOf = (seconds: number): string =>
  seconds < minute
    ? `${seconds} s`
    : seconds < day
      ? `${(seconds / minute).toFixed(seconds % minute === 0 ? 0 : 2)} minutes`
      : `${seconds / day} days`

export const describe = (command: Command): string => {
  switch (command.do) {
    case "login":
      return `${command.who} logs in with ${command.slt === "new" ? "a new short-lived token" : command.slt === "same" ? "the same short-lived token again" : "a public id"}`
    case "me":
      return `${command.who} asks who it is`
    case "session":
      return `${command.who} reads its session`
    case "subscribe":
      return `${command.who} subscribes`
    case "ting":
      return `${command.who} sends ${command.again ? "the same ting again" : "a ting"}`
    case "together":
      return `${command.callers} callers of ${command.who} ask at once`
    case "logout":
      return `${command.who} ${command.forget ? "forgets its session" : "logs out"}`
    case "same refresh":
      return `${command.callers} callers at once refresh the session of ${command.who} under its own key, and keep nothing`
    case "all refresh":
      return "all sessions are refreshed at once under their own keys, and nothing is kept"
    case "stolen refresh":
      return `an attacker refreshes with the ${command.token} token of ${command.who} under another key`
    case "crossed refresh":
      return `the refresh token of ${command.who} is sent under a key of ${command.other}`
    case "crossed login":
      return command.what === "key"
        ? `a new short-lived token of ${command.who} is sent under the login key of ${command.other}`
        : `the spent short-lived token of ${command.other} is sent under a key of ${command.who}`
    case "wrong plane":
      return `the tokens of ${command.who} are sent to the other plane`
    case "wait":
      return `${spanOf(command.seconds)} pass`
    case "revoke login":
      return `the admin revokes the login of ${command.who}`
    case "revoke access":
      return `the access token of ${command.who} ends early`
    case "leave organisation":
      return `${command.who} leaves its organisations`
    case "join organisation":
      return `${command.who} is in its organisations again`
    case "switch plane":
      return `${command.who} starts again in the other plane`
    case "kill server":
      return `server ${command.server} is killed`
    case "kill program":
      return `program ${command.who} is killed`
    case "fault":
      return `plan: ${command.kind}, at call ${command.after + 1} from now${command.path === "any" ? "" : ` to ${command.path}`}`
    case "outage":
      return `${command.path} fails from now on: ${command.kind}`
    case "mend":
      return "all upstreams work again"
    case "client fault":
      return `plan for ${command.who}: ${command.kind}, after ${command.after} others`
    case "settle":
      return "all faults end, and each program tries again"
  }
}
