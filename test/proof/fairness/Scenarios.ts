/** Who calls whom, and what each kind of client must get. */
import { tokensOf } from "../../world/Calls.ts"
import { requests, type Sent } from "../../world/Driver.ts"
import { faults } from "../../world/Faults.ts"
import type { WorldOptions } from "../../world/World.ts"
import { commandLine, daemon, makeClient, page, reporter } from "./Clients.ts"
import { type Group, minute, type Row, second, start, type World } from "./World.ts"

/** How large a scenario is played. */
export interface Size {
  /** Clients of its largest kind. */
  readonly count: number
  /** The full run lasts longer. */
  readonly isFull: boolean
}

/** A value at the end of a play, and its bounds. NaN, of what never happened, keeps none. */
type Demand = readonly [what: string, value: () => number, least: number, most: number]

export interface Scenario {
  readonly name: string
  readonly settings?: WorldOptions["settings"]
  /** IAM refuses calls here, because another instance makes them too. */
  readonly iamRefuses?: boolean
  /** Starts the clients; returns when to measure from and until, in milliseconds from the start, and what is demanded then. */
  readonly play: (
    world: World,
    size: Size
  ) => { readonly from: number; readonly until: number; readonly demands: ReadonlyArray<Demand> }
}

/** An address of a documentation network and its neighbours; all are different. */
const addressAt = (network: number, index: number): string =>
  `${network}.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`
const identity = (kind: string, network: number, index: number, address = addressAt(network, index)) => ({
  kind,
  name: `${kind.replace(" ", "-")}${String(index).padStart(5, "0")}`,
  address
})
const times = (count: number, act: (index: number) => void): void => {
  for (let index = 0; index < count; index += 1) act(index)
}
const part = ({ count }: Size, divisor: number, least = 1): number =>
  Math.max(least, Math.round(count / divisor))
const lasting = ({ isFull }: Size, slice: number, full: number): number => (isFull ? full : slice) * minute

/** 60 daemons with addresses of their own: what one service serves well (docs/limits.md, "Capacity"). They log in once a second. */
const daemons = (world: World, count = 60, pause = second, activeFrom = minute): void =>
  times(count, (index) => daemon(world, identity("daemon", 10, index), index * pause, activeFrom))

/** People who log in one after another while something else goes on. */
const visitors = (world: World, every: number, until: number): void => {
  for (let at = minute, index = 0; at < until; at += every, index += 1)
    commandLine(world, identity("command line", 11, index), at + world.random.below(every))
}

/** A client that has a session and sends the same request for ever. */
const looping = (
  world: World,
  kind: string,
  actor: string,
  from: string,
  pause: number,
  request: (token: string) => Sent,
  at = 0
): void =>
  start(async () => {
    const session = await world.sessionOf(kind, actor, from)
    const send = () => request(session?.access ?? "")
    if (session !== undefined) await world.loop(kind, pause, from, send, at)
  })

/** Clients that repeat at once what was refused, or ask all the time. */
const loops = (world: World, many: number, pause: number): void =>
  times(many, (index) => {
    const dead = requests.refresh(world.invent("ort", "loop"), world.newKey())
    start(() => world.loop("loop", pause, addressAt(12, index), () => dead))
    const spent = world.invent("oac", "loop")
    const logIn = () => requests.login(spent, world.newKey())
    start(() => world.loop("loop", pause, addressAt(13, index), logIn))
    looping(world, "poller", `c:poller${index}`, addressAt(14, index), pause, requests.me)
  })

/** Each request has an invented credential and an address that `addressOf` chooses. */
const strangers = (
  world: World,
  kind: string,
  pause: number,
  addressOf: (index: number) => string,
  prefixes: ReadonlyArray<"oat" | "ort" | "oac" | "ask">,
  from = minute
): void => {
  let index = 0
  const request = () => {
    const prefix = prefixes[index++ % prefixes.length] ?? "oat"
    const credential = world.invent(prefix, kind)
    if (prefix === "oat") return requests.me(credential)
    if (prefix === "ort") return requests.refresh(credential, world.newKey())
    return prefix === "oac" ? requests.login(credential, world.newKey()) : requests.plane(credential)
  }
  start(() => world.loop(kind, pause, () => addressOf(index), request, from))
}

/** Another /64 each time, of one /48. */
const oneSite = (index: number) => `2001:db8:7:${(index % 65_536).toString(16)}::1`

const testers = (world: World, count: number): void => {
  const secret = world.secretFor("tester")
  times(count, (index) =>
    start(async () => {
      const client = makeClient(world, identity("tester", 17, index))
      await world.time.sleep(index * 3 * second)
      await client.every(30 * second, () => client.perform("use", () => requests.plane(secret)))
    })
  )
}

const reporters = (world: World, count: number, period: number): void =>
  times(count, (index) => reporter(world, identity("reporter", 19, index), index * second, period))

/** They send anonymous reports. */
const flooders = (world: World, count: number, pause: number): void =>
  times(count, (index) => {
    const report = () => requests.report(`nonsense ${world.newKey()}`, world.newKey())
    start(() => world.loop("flooder", pause, addressAt(20, index), report, minute))
  })

// Bounds of `served`, `onTime`, sessions and calls follow from docs/limits.md ("The budget for IAM"); those of waits and equality were measured.

interface Limits {
  /** Least parts: of all operations, and of the calls at the time that a refusal gave. */
  readonly served?: number
  readonly onTime?: number
  /** Equal clients get equal parts; what is left is the time at which each begins. */
  readonly even?: number
  /** The most seconds that an operation waits, after which it counts as refused. */
  readonly wait?: number
}

/** Seconds: an answer may take as long, and so may the longest `Retry-After`, 15 minutes. */
const patience = { least: 30, most: 16 * 60 } as const

const gets = (
  { ledger }: World,
  kind: string,
  group: Group,
  { even = 0, onTime = 0, served = 0.999, wait = 60 }: Limits = {}
): ReadonlyArray<Demand> => {
  const most = Math.max(patience.least, Math.min(patience.most, wait)) * second
  const demand = (measure: keyof Row, least: number, limit = Number.POSITIVE_INFINITY): Demand => [
    `${kind}, ${group}: ${measure}`,
    () => ledger.rowOf(kind, group, most)?.[measure] ?? Number.NaN,
    least,
    limit
  ]
  return [
    demand("served", served),
    demand("p99Wait", 0, wait),
    demand("onTime", onTime),
    demand("jain", even)
  ]
}

/** A client that holds a session keeps it, and refreshes it before the access token ends; its calls are served at the time given. */
const wellServed = (world: World, kind: string, use: Limits = {}): ReadonlyArray<Demand> => [
  ...gets(world, kind, "session"),
  ...gets(world, kind, "use", { onTime: 0.9, ...use })
]
const evenDaemons = (world: World, use: Limits = {}) => wellServed(world, "daemon", { even: 0.8, ...use })

/** Calls to one path of IAM in any minute that these kinds cause together. */
const callsOf = (world: World, kinds: ReadonlyArray<string>, most: number): Demand => [
  `calls to IAM of ${kinds.join(", ")} in a minute`,
  () => world.mostCallsOf(kinds),
  0,
  most
]

export const scenarios: ReadonlyArray<Scenario> = [
  {
    name: "loops and pollers",
    play: (world, size) => {
      const until = lasting(size, 3, 20)
      daemons(world)
      visitors(world, 10 * second, until)
      loops(world, part(size, 150), second)
      const addresses = part(size, 8, 40)
      strangers(world, "stranger", 500, (index) => addressAt(15, index % addresses), ["oat", "ort"], 0)
      return {
        from: minute,
        until,
        demands: [
          ...evenDaemons(world, { even: 0.85 }),
          ...wellServed(world, "command line"),
          // All but refreshes and logouts stop at 85 % of 110.
          callsOf(world, ["loop", "poller", "stranger"], 93)
        ]
      }
    }
  },
  {
    // More than IAM's limit serves: their reads wait, their sessions do not.
    name: "more daemons than the budget serves",
    play: (world, size) => {
      const count = part(size, 1.6, 190)
      const from = count * 0.8 * second + 10 * second
      daemons(world, count, 0.8 * second, from)
      // They wait in turn, so the longest wait follows from their number.
      const wait = size.isFull ? Number.POSITIVE_INFINITY : 150
      return {
        from,
        until: from + lasting(size, 2.5, 30),
        // A turn is late by the refreshes that came meanwhile.
        demands: [
          ...evenDaemons(world, { served: 0.99, onTime: 0.5, wait }),
          ...gets(world, "daemon", "session", { onTime: 0.99 })
        ]
      }
    }
  },
  {
    // An office: pages, a runaway session and a dead token in a loop.
    name: "one address shared by many",
    play: (world, size) => {
      const address = "192.0.2.1"
      const people = part(size, 6)
      const from = people * 1.6 * second
      daemons(world, 20)
      times(people, (index) => page(world, identity("page", 0, index, address), index * 1.6 * second))
      looping(world, "runaway", "c:runaway", address, 40, requests.me, from)
      const dead = requests.refresh(world.invent("ort", "loop"), world.newKey())
      start(() => world.loop("loop", second, address, () => dead))
      return {
        from: from + 45 * second,
        until: from + lasting(size, 1.5, 10),
        demands: [
          // A session has 600 of the address's 1,200 requests, however often it is refused.
          ...gets(world, "page", "use", { onTime: 0.9 }),
          ...gets(world, "daemon", "use", { onTime: 0.9 }),
          // IAM's refusal of a refresh token is repeated for 10 minutes without a call.
          callsOf(world, ["loop"], 1)
        ]
      }
    }
  },
  {
    // Invented credentials from very many addresses.
    name: "strangers from everywhere",
    play: (world, size) => {
      const until = lasting(size, 3.5, 20)
      daemons(world)
      visitors(world, 15 * second, until)
      const ipv4 = (index: number) => addressAt(16, index % size.count)
      strangers(world, "stranger", 500, ipv4, ["oat"])
      strangers(world, "stranger", 500, ipv4, ["ort"])
      strangers(world, "site", 400, oneSite, ["oat", "ort", "oac"])
      return {
        from: 2 * minute,
        until,
        demands: [
          ...evenDaemons(world),
          ...wellServed(world, "command line"),
          // Newcomers stop at 50 % of the budget. The first login of a site is none.
          callsOf(world, ["stranger", "site"], 56)
        ]
      }
    }
  },
  {
    // Anonymous ones beside people who report.
    name: "a flood of reports",
    settings: { reportsBytes: 3_000_000 },
    play: (world, size) => {
      const began = world.time.now()
      const count = part(size, 30, 5)
      reporters(world, count, Math.max(3 * minute, count * 40 * second))
      flooders(world, part(size, 10), (size.isFull ? 2 : 4) * second)
      const report = () => requests.report(`one flooder ${world.newKey()}`, world.newKey())
      start(() => world.loop("one flooder", 2 * second, "192.0.2.77", report, minute))
      const stored = () => world.ledger.servedAtOnce("reporter")
      const isVerified = ({ body, createdAt, title }: ReturnType<World["upstreams"]["issues"]>[number]) =>
        createdAt >= began + minute && `${title} ${body}`.includes("verified reporter")
      const filed = () => world.upstreams.issues().filter(isVerified).length
      let waiting = 0
      start(async () => {
        for (;;) {
          await world.time.sleep(10 * second)
          if (world.time.elapsed() > minute) waiting = Math.max(waiting, stored() - filed())
        }
      })
      return {
        from: minute,
        // Before the tracker's 450 writes of an hour are used up, at one a second.
        until: lasting(size, 5, 7),
        demands: [
          ...gets(world, "reporter", "use", { wait: 0 }),
          ["reports stored at once", stored, 1, Number.POSITIVE_INFINITY],
          // 60 at once or in the hour, and what is refilled in the run.
          ["reports of one address", () => world.ledger.countOf("one flooder", "served"), 0, 100],
          ["issues filed", () => world.upstreams.issues().length, 200, Number.POSITIVE_INFINITY],
          // A verified report overtakes all others: only those of the last seconds wait.
          ["verified reports filed, part", () => Math.min(1, filed() / stored()), 0.95, 1],
          ["verified reports waiting at once", () => waiting, 0, 3]
        ]
      }
    }
  },
  {
    // Each of them asks and refreshes all the time.
    name: "one actor with very many logins",
    play: (world, size) => {
      daemons(world)
      const logins = part(size, 6, 50)
      times(logins, (index) =>
        start(async () => {
          const address = addressAt(23, index >> 3)
          await world.time.sleep(minute + index * 1.5 * second)
          let session = await world.sessionOf("hoarder", "c:hoarder", address)
          if (session === undefined) return
          const me = () => requests.me(session?.access ?? "")
          start(() => world.loop("hoarder", 20 * second, address, me))
          for (;;) {
            await world.time.sleep(15 * second)
            const refresh = requests.refresh(session.refresh, world.newKey())
            session = tokensOf(await world.send(address, refresh)) ?? session
          }
        })
      )
      return {
        from: minute,
        until: minute + logins * 1.5 * second + lasting(size, 2, 15),
        demands: [
          // While its logins and refreshes come in a burst, some turns are late.
          ...evenDaemons(world, { onTime: 0.8, wait: 75, even: 0.9 }),
          // 40 logins, as fast as they come here, 15 refreshes and 30 reads.
          callsOf(world, ["hoarder"], 85)
        ]
      }
    }
  },
  {
    // Another instance uses IAM's limit up.
    name: "IAM answers 429",
    iamRefuses: true,
    play: (world, size) => {
      daemons(world)
      const fault = faults["429 before"]
      const refuse = () => world.faults.plan({ path: "introspect", times: Number.POSITIVE_INFINITY, fault })
      world.time.after(2 * minute, refuse)
      world.time.after(4 * minute, world.faults.heal)
      return {
        from: minute,
        until: lasting(size, 5, 15),
        demands: [
          // The two minutes, and the reads that waited for their end.
          ...gets(world, "daemon", "session", { wait: 180 }),
          ...gets(world, "daemon", "use", { served: 0.99, wait: 180, even: 0.8 }),
          // One try in five seconds for the two minutes, and the first refusal of each pause.
          ["IAM 429", world.refusedByIam, 1, 30]
        ]
      }
    }
  },
  {
    name: "all of them at once",
    settings: { reportsBytes: 2_000_000 },
    play: (world, size) => {
      const until = lasting(size, 4, 30)
      daemons(world, 40)
      visitors(world, 20 * second, until)
      times(part(size, 30), (index) =>
        page(world, identity("page", 0, index, "192.0.2.1"), index * 2 * second)
      )
      reporters(world, 5, 3 * minute)
      testers(world, 1)
      loops(world, part(size, 300), second)
      const ipv4 = (index: number) => addressAt(16, index % size.count)
      strangers(world, "stranger", second, ipv4, ["oat", "ort"])
      strangers(world, "stranger", second, oneSite, ["oac"])
      strangers(world, "stranger", second, () => "203.0.113.9", ["ask"])
      flooders(world, part(size, 30), 10 * second)
      return {
        from: 2 * minute,
        until,
        demands: [
          ...evenDaemons(world),
          ...wellServed(world, "command line"),
          ...["page", "tester"].flatMap((kind) => gets(world, kind, "use", { onTime: 0.9 })),
          ...gets(world, "reporter", "use", { wait: patience.most }),
          callsOf(world, ["loop", "poller", "stranger"], 93)
        ]
      }
    }
  }
]
