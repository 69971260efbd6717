/** Who calls whom, and what each kind of client must get. */
import { requests } from "../../world/Driver.ts"
import { after, commandLine, daemon } from "./Clients.ts"
import { type Group, minute, second, start, type World } from "./World.ts"

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
  readonly instances?: number
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

/** People who log in one after another while something else goes on; each at an address of its own, or all at one. */
const visitors = (world: World, every: number, until: number): void => {
  for (let at = minute, index = 0; at < until; at += every, index += 1)
    commandLine(world, identity("command line", 11, index), at + world.random.below(every))
}

/** Clients that repeat at once what was refused, or ask all the time. */
const loops = (world: World, many: number, pause: number): void =>
  times(many, (index) => {
    const dead = requests.refresh(world.invent("ort", "loop"), world.newKey())
    const at = (network: number) => () => addressAt(network, index)
    start(() => world.loop(pause, at(12), () => dead))
    const spent = world.invent("oac", "loop")
    const logIn = () => requests.login(spent, world.newKey())
    start(() => world.loop(pause, at(13), logIn))
    start(async () => {
      const session = await world.sessionOf("poller", `c:poller${index}`, at(14)())
      if (session !== undefined) await world.loop(pause, at(14), () => requests.me(session.access))
    })
  })

interface Inventor {
  readonly kind?: string
  /** Mean milliseconds between two requests. */
  readonly pause: number
  readonly addressOf: (index: number) => string
  readonly prefixes: ReadonlyArray<"oat" | "ort" | "oac">
  readonly at?: number
  readonly isPatient?: boolean
}

/** Each request has an invented credential. */
const strangers = (
  world: World,
  { addressOf, kind = "stranger", pause, prefixes, ...given }: Inventor
): void => {
  let index = 0
  const request = () => {
    const prefix = prefixes[index++ % prefixes.length] ?? "oat"
    const credential = world.invent(prefix, kind)
    if (prefix === "oat") return requests.me(credential)
    return (prefix === "ort" ? requests.refresh : requests.login)(credential, world.newKey())
  }
  start(() => world.loop(pause, () => addressOf(index), request, given))
}

/** Another /64 each time, of one /48. */
const oneSite = (index: number) => `2001:db8:7:${(index % 65_536).toString(16)}::1`

// Bounds of `served`, `onTime`, sessions and calls follow from docs/limits.md ("The budget for IAM"); those of waits were measured.

interface Limits {
  /** Least parts: of all operations, and of the calls at the time that a refusal gave. */
  readonly served?: number
  readonly onTime?: number
  /** The most seconds that an operation waits, after which it counts as refused. */
  readonly wait?: number
}

/** Seconds in which all places of a window change hands: 60 after the answers of their calls. */
const round = 62
/** Seconds: an answer may take as long, and so may the longest `Retry-After`, 15 minutes. */
const patience = { least: 30, most: 16 * 60 } as const

const gets = (
  { ledger }: World,
  kind: string,
  group: Group,
  { onTime = 0, served = 0.999, wait = round }: Limits = {}
): ReadonlyArray<Demand> => {
  const most = Math.max(patience.least, Math.min(patience.most, wait)) * second
  const demand = (
    measure: "served" | "p99Wait" | "onTime",
    least: number,
    limit = Number.POSITIVE_INFINITY
  ): Demand => [
    `${kind}, ${group}: ${measure}`,
    () => ledger.rowOf(kind, group, most)?.[measure] ?? Number.NaN,
    least,
    limit
  ]
  return [demand("served", served), demand("p99Wait", 0, wait), demand("onTime", onTime)]
}

/** A client that holds a session keeps it, and refreshes it before the access token ends; its calls are served at the time given. */
const wellServed = (world: World, kind: string, use: Limits = {}): ReadonlyArray<Demand> => [
  ...gets(world, kind, "session"),
  ...gets(world, kind, "use", { onTime: 0.9, ...use })
]

/** Calls to one path of IAM in any minute that these kinds cause together. */
const callsOf = (world: World, kinds: ReadonlyArray<string>, most: number): Demand => [
  `calls to IAM of ${kinds.join(", ")} in a minute`,
  () => world.mostCallsOf(kinds),
  0,
  most
]

/** Six people who log in at these addresses, where inventors hold all places of their share by then. At least so many are served in time. */
interface Visitors {
  readonly addressOf: (index: number) => string
  readonly minutes: number
  readonly least: number
}

/** People who log in beside inventors. */
const besideInventors = (
  name: string,
  inventors: ReadonlyArray<Inventor>,
  visitors: ReadonlyArray<Visitors>
): Scenario => ({
  name,
  play: (world) => {
    const { random, time } = world
    for (const inventor of inventors) strangers(world, inventor)
    const demands = visitors.map(({ addressOf, least, minutes }, group): Demand => {
      let served = 0
      times(6, (index) => {
        const at = (90 + index * 2) * second + random.below(second)
        const visitor = identity("visitor", 0, 6 * group + index, addressOf(index))
        after(world, visitor, at, async () => {
          if (time.elapsed() - at <= minutes * minute) served += 1
        })
      })
      return [`visitors at ${addressOf(0)} with a session in ${minutes} minutes`, () => served, least, 6]
    })
    return { from: 0, until: (1.75 + Math.max(...visitors.map((one) => one.minutes))) * minute, demands }
  }
})

/** Sessions that are used and refreshed at an instance that did not hand them out, while 100 addresses invent five times what IAM takes. */
const sessionsOfOthers = (instances: 1 | 2): Scenario => ({
  name: `sessions of others in a flood, ${instances} instances`,
  instances,
  play: (world) => {
    const { moveOn, time } = world
    const from = 3 * minute
    times(20, (index) =>
      after(world, identity("person", 17, index), index * 3 * second, async ({ me, refresh }) => {
        await time.sleep(from + index * second - time.elapsed())
        await me()
        await refresh()
      })
    )
    const addressOf = (index: number) => addressAt(18, index % 100)
    strangers(world, { addressOf, at: 2 * minute, pause: 100, prefixes: ["oat", "ort"] })
    start(async () => {
      await time.sleep(from - 1)
      await moveOn()
    })
    const most = { served: 0.95 }
    return {
      from,
      until: from + 2.5 * minute,
      demands: [...gets(world, "person", "use", most), ...gets(world, "person", "session", most)]
    }
  }
})

const behind = () => addressAt(19, 0)
const inventors = (
  [
    ["oat", false, 2],
    ["oac", false, 2],
    ["ort", true, 4]
  ] as const
).map(([prefix, isPatient, minutes]) =>
  besideInventors(
    `an inventor of one ${prefix} a second, patient ${isPatient}`,
    [{ addressOf: behind, isPatient, pause: second, prefixes: [prefix] }],
    [{ addressOf: behind, minutes, least: 5 }]
  )
)

export const scenarios: ReadonlyArray<Scenario> = [
  {
    name: "loops and pollers",
    play: (world, size) => {
      const until = lasting(size, 2.2, 20)
      daemons(world)
      visitors(world, 10 * second, until)
      loops(world, part(size, 150), second)
      const addresses = part(size, 8, 40)
      const addressOf = (index: number) => addressAt(15, index % addresses)
      strangers(world, { addressOf, pause: 500, prefixes: ["oat", "ort"] })
      return {
        from: minute,
        until,
        demands: [
          ...wellServed(world, "daemon"),
          ...wellServed(world, "command line"),
          // All but refreshes and logouts stop at 85 % of 110.
          callsOf(world, ["loop", "poller", "stranger"], 93)
        ]
      }
    }
  },
  {
    name: "a poller, a repeated dead token and strangers",
    play: (world, size) => {
      daemons(world)
      loops(world, 1, second)
      const addressOf = (index: number) => addressAt(23, index % 40)
      strangers(world, { addressOf, pause: 500, prefixes: ["oat", "ort"] })
      const unrefused = { onTime: 1, wait: 0 }
      return {
        // The minute in which all of them log in has left the windows.
        from: 2.2 * minute,
        until: lasting(size, 3, 20),
        demands: [...gets(world, "daemon", "session", unrefused), ...gets(world, "daemon", "use", unrefused)]
      }
    }
  },
  {
    // More than IAM's limit serves: their reads wait, their sessions do not.
    name: "more daemons than the budget serves",
    play: (world, size) => {
      const count = part(size, 5, 190)
      const from = count * 0.8 * second + 10 * second
      daemons(world, count, 0.8 * second, from)
      // They wait in turn, so the longest wait follows from their number. A turn is late by the refreshes that came meanwhile.
      const use = size.isFull ? { onTime: 0.35, wait: 720 } : { onTime: 0.5, wait: 150 }
      return {
        from,
        until: from + lasting(size, 2.5, 30),
        demands: [
          ...wellServed(world, "daemon", { served: 0.99, ...use }),
          ...gets(world, "daemon", "session", { onTime: 0.99 })
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
      const addressOf = (index: number) => addressAt(16, index % size.count)
      for (const prefix of ["oat", "ort"] as const)
        strangers(world, { addressOf, at: minute, pause: 500, prefixes: [prefix] })
      strangers(world, {
        kind: "site",
        addressOf: oneSite,
        at: minute,
        pause: 400,
        prefixes: ["oat", "ort", "oac"]
      })
      return {
        from: 2 * minute,
        until,
        demands: [
          ...wellServed(world, "daemon"),
          ...wellServed(world, "command line"),
          // Newcomers stop at 50 % of the budget. The first login of a site is none.
          callsOf(world, ["stranger", "site"], 56)
        ]
      }
    }
  },
  ...inventors,
  besideInventors(
    "patient inventors at 40 addresses",
    Array.from({ length: 40 }, (_, at) => ({
      addressOf: () => addressAt(20, at),
      isPatient: true,
      pause: 4 * second,
      prefixes: ["oac"]
    })),
    [
      { addressOf: (index) => addressAt(21, index), minutes: 2, least: 5 },
      { addressOf: () => addressAt(20, 7), minutes: 4, least: 2 }
    ]
  ),
  sessionsOfOthers(1),
  sessionsOfOthers(2)
]
