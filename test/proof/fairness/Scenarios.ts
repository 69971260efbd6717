/** Who calls whom, and what each kind of client must get. */
import type { InMemoryRequest } from "../../support/InMemoryServer.ts"
import { inventions, loop, sessionOf } from "./Attackers.ts"
import { commandLine, daemon, makeClient, page, reporter, start } from "./Clients.ts"
import { minute } from "./Ledger.ts"
import { newKey, requests } from "./Requests.ts"
import type { Bound, Scenario, Size } from "./Scenario.ts"
import type { World } from "./World.ts"

const second = 1_000

/** An address of a documentation network and its neighbours; all are different. */
const addressAt = (network: number, index: number): string =>
  `${network}.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`

const named = (prefix: string, index: number): string => `${prefix}${String(index).padStart(5, "0")}`

const times = (count: number, act: (index: number) => void): void => {
  for (let index = 0; index < count; index += 1) act(index)
}

const part = ({ count }: Size, divisor: number, least = 1): number =>
  Math.max(least, Math.round(count / divisor))

const lasting = ({ isFull }: Size, slice: number, full: number): number => (isFull ? full : slice) * minute

/** 60 daemons with addresses of their own: what one service serves well (docs/capacity.md). They log in once a second. */
const daemons = (world: World, count = 60, activeFrom = minute): void =>
  times(count, (index) =>
    start(
      daemon(
        world,
        { kind: "daemon", name: named("daemon", index), address: addressAt(10, index) },
        { loginAt: index * second, activeFrom }
      )
    )
  )

/** A client that holds a session keeps it, and refreshes it before the access token ends. */
const keepsSessions = (of: string): ReadonlyArray<Bound> => [
  { of, group: "session", measure: "served", least: 0.999, source: "promised" },
  { of, group: "session", measure: "p99Wait", most: 60, source: "promised" }
]

/** Calls of a known client with few of them are served, and at the time given where they are refused. */
const isServed = (of: string): ReadonlyArray<Bound> => [
  { of, group: "use", measure: "served", least: 0.999, source: "promised" },
  { of, group: "use", measure: "p99Wait", most: 60, source: "measured" },
  { of, group: "use", measure: "onTime", least: 0.9, source: "promised" }
]

/** Equal clients get equal parts; what is left is the time at which each begins. */
const evenlyServed = (of: string, least: number): ReadonlyArray<Bound> => [
  { of, group: "use", measure: "jain", least, source: "measured" },
  { of, group: "use", measure: "leastToMost", least: 0.25, source: "measured" }
]

const wellServed = (of: string): ReadonlyArray<Bound> => [...keepsSessions(of), ...isServed(of)]

/** People who log in one after another while something else goes on. */
const visitors = (
  world: World,
  { every, from, until }: { readonly every: number; readonly from: number; readonly until: number }
): void => {
  for (let at = from, index = 0; at < until; at += every, index += 1)
    start(
      commandLine(
        world,
        { kind: "command line", name: named("person", index), address: addressAt(11, index) },
        at + world.random.below(every)
      )
    )
}

/** Clients that repeat at once what was refused, or ask all the time. */
const loops = (world: World, many: number, pause: number): void =>
  times(many, (index) => {
    const address = () => addressAt(12, index)
    const { refreshToken, slt } = inventions(world, "loop")
    const dead = refreshToken()
    const deadKey = newKey()
    start(
      loop(world, { kind: "loop", name: named("dead", index), address, pause }, () =>
        requests.refresh(dead, deadKey)
      )
    )
    const spent = slt()
    start(
      loop(
        world,
        { kind: "loop", name: named("spent", index), address: () => addressAt(13, index), pause },
        () => requests.login(spent, newKey())
      )
    )
    start(async () => {
      const session = await sessionOf(world, "poller", `c:poller${index}`, addressAt(14, index))
      if (session === undefined) return
      const { accessToken } = session
      await loop(
        world,
        { kind: "poller", name: named("poller", index), address: () => addressAt(14, index), pause },
        () => requests.me(accessToken)
      )()
    })
  })

/** Invented credentials, each from an address that `addressOf` chooses; `requests` a second together. */
const strangers = (
  world: World,
  kind: string,
  {
    addressOf,
    from = 0,
    pause
  }: { readonly addressOf: (index: number) => string; readonly pause: number; readonly from?: number },
  request: (made: ReturnType<typeof inventions>, index: number) => InMemoryRequest
): void => {
  const made = inventions(world, kind)
  let index = 0
  let sender = 0
  start(
    loop(world, { kind, name: kind, address: () => addressOf(sender++), pause, from }, () =>
      request(made, index++)
    )
  )
}

const beside: Scenario = {
  name: "loops and pollers",
  honest: ["daemon", "command line"],
  play: (world, size) => {
    const until = lasting(size, 4, 20)
    daemons(world)
    visitors(world, { every: 10 * second, from: minute, until })
    loops(world, part(size, 150), size.isFull ? 500 : second)
    const addresses = part(size, 8, 40)
    strangers(
      world,
      "stranger",
      { addressOf: (index) => addressAt(15, index % addresses), pause: size.isFull ? 250 : 500 },
      (made, index) =>
        index % 2 === 0 ? requests.me(made.accessToken()) : requests.refresh(made.refreshToken(), newKey())
    )
    return { from: minute, until }
  },
  bounds: [
    ...wellServed("daemon"),
    ...wellServed("command line"),
    ...evenlyServed("daemon", 0.85),
    // Known credentials with many calls stop at 85 % - 20 % of 110, newcomers in any case at 10 % more.
    { callsOf: ["loop", "poller", "stranger"], most: 82, source: "promised" }
  ]
}

/** More daemons than IAM's limit serves: their reads wait, their sessions do not. */
const crowd: Scenario = {
  name: "more daemons than the budget serves",
  honest: ["daemon"],
  play: (world, size) => {
    const count = part(size, 1.6, 190)
    const activeFrom = count * 0.8 * second + 10 * second
    times(count, (index) =>
      start(
        daemon(
          world,
          { kind: "daemon", name: named("daemon", index), address: addressAt(10, index) },
          { loginAt: index * 0.8 * second, activeFrom }
        )
      )
    )
    return { from: activeFrom, until: activeFrom + lasting(size, 5, 30) }
  },
  bounds: [
    { of: "daemon", group: "session", measure: "served", least: 0.999, source: "promised" },
    { of: "daemon", group: "session", measure: "p99Wait", most: 60, source: "promised" },
    { of: "daemon", group: "use", measure: "served", least: 0.99, source: "promised" },
    { of: "daemon", group: "use", measure: "onTime", least: 0.9, source: "promised" },
    // They wait in turn, so the longest wait follows from their number.
    { of: "daemon", group: "use", measure: "p99Wait", most: 150, source: "measured", onlyInSlice: true },
    ...evenlyServed("daemon", 0.8)
  ]
}

/** An office behind one address: pages, a runaway session and a dead token in a loop. */
const office: Scenario = {
  name: "one address shared by many",
  honest: ["page", "daemon"],
  play: (world, size) => {
    const address = "192.0.2.1"
    const people = part(size, 6)
    const from = people * 1.6 * second
    daemons(world, 20)
    times(people, (index) =>
      start(page(world, { kind: "page", name: named("page", index), address }, index * 1.6 * second))
    )
    start(async () => {
      const session = await sessionOf(world, "runaway", "c:runaway", address)
      if (session === undefined) return
      const { accessToken } = session
      await loop(world, { kind: "runaway", name: "runaway", address: () => address, pause: 20, from }, () =>
        requests.me(accessToken)
      )()
    })
    const dead = inventions(world, "loop").refreshToken()
    const key = newKey()
    start(
      loop(world, { kind: "loop", name: "dead", address: () => address, pause: second }, () =>
        requests.refresh(dead, key)
      )
    )
    return { from: from + 45 * second, until: from + lasting(size, 1.5, 10) }
  },
  bounds: [
    // A session has 600 of the address's 1,200 requests, however often it is refused.
    ...isServed("page"),
    ...isServed("daemon"),
    // IAM's refusal of a refresh token is repeated for 10 minutes without a call.
    { callsOf: ["loop"], most: 1, source: "promised" }
  ]
}

/** Invented credentials from very many addresses. */
const botnet: Scenario = {
  name: "strangers from everywhere",
  honest: ["daemon", "command line"],
  play: (world, size) => {
    const until = lasting(size, 4, 20)
    const bots = size.count
    daemons(world)
    visitors(world, { every: 15 * second, from: minute, until })
    const ipv4 = (index: number) => addressAt(16, index % bots)
    // Another /64 each time, of one /48.
    const ipv6 = (index: number) => `2001:db8:7:${(index % 65_536).toString(16)}::1`
    strangers(world, "stranger", { addressOf: ipv4, pause: 500, from: minute }, (made) =>
      requests.me(made.accessToken())
    )
    strangers(world, "stranger", { addressOf: ipv4, pause: 500, from: minute }, (made) =>
      requests.refresh(made.refreshToken(), newKey())
    )
    strangers(world, "site", { addressOf: ipv6, pause: 400, from: minute }, (made, index) =>
      index % 3 === 0
        ? requests.me(made.accessToken())
        : index % 3 === 1
          ? requests.refresh(made.refreshToken(), newKey())
          : requests.login(made.slt(), newKey())
    )
    return { from: 2 * minute, until }
  },
  bounds: [
    ...wellServed("daemon"),
    ...wellServed("command line"),
    ...evenlyServed("daemon", 0.8),
    // Newcomers stop at 50 % of the budget.
    { callsOf: ["stranger", "site"], most: 66, source: "promised" },
    // Suspects: one site has 8 %, and six refusals before it is suspect.
    { callsOf: ["site"], most: 16, source: "promised" }
  ]
}

/** Invented short-lived tokens, a first one from each address. */
const loginFlood: Scenario = {
  name: "logins with invented tokens",
  honest: ["daemon", "command line"],
  play: (world, size) => {
    const until = lasting(size, 4, 20)
    daemons(world)
    visitors(world, { every: 15 * second, from: minute, until })
    strangers(
      world,
      "stranger",
      { addressOf: (index) => addressAt(16, index), pause: 300, from: minute },
      (made) => requests.login(made.slt(), newKey())
    )
    return { from: 2 * minute, until }
  },
  bounds: [
    { of: "daemon", group: "session", measure: "served", least: 0.999, source: "promised" },
    ...isServed("daemon"),
    ...evenlyServed("daemon", 0.8),
    ...isServed("command line"),
    { of: "command line", group: "session", measure: "served", least: 0.99, source: "measured" },
    { of: "command line", group: "session", measure: "p99Wait", most: 120, source: "measured" },
    { callsOf: ["stranger"], most: 94, source: "promised" }
  ]
}

/** Guesses of testing secrets beside clients of a testing plane. */
const guesser: Scenario = {
  name: "guesses of testing secrets",
  honest: ["tester", "daemon"],
  play: (world, size) => {
    const until = lasting(size, 4, 15)
    const secret = world.upstreams.own(world.upstreams.environment.musicSecret, "tester")
    daemons(world, 20)
    times(part(size, 60, 5), (index) =>
      start(async () => {
        const client = makeClient(world, {
          kind: "tester",
          name: named("tester", index),
          address: addressAt(17, index)
        })
        await world.time.sleep(index * 3 * second)
        await client.every(30 * second, () => client.perform("plane", () => requests.plane(secret)))
      })
    )
    strangers(world, "guesser", { addressOf: () => "203.0.113.9", pause: 400 }, (made) =>
      requests.plane(made.testingSecret())
    )
    strangers(
      world,
      "guesser",
      { addressOf: (index) => addressAt(18, index % size.count), pause: 500, from: minute },
      (made) => requests.plane(made.testingSecret())
    )
    return { from: minute, until }
  },
  bounds: [
    ...isServed("tester"),
    ...wellServed("daemon"),
    ...evenlyServed("daemon", 0.8),
    { callsOf: ["guesser"], most: 66, source: "promised" }
  ]
}

/** A flood of anonymous reports beside people who report. */
const reports: Scenario = {
  name: "a flood of reports",
  settings: { reportsBytes: 3_000_000 },
  honest: ["reporter"],
  play: (world, size) => {
    const began = world.time.now()
    // The slice lasts until the tracker's writes of an hour would be used up, at one a second.
    const until = lasting(size, 12, 40)
    const flooders = part(size, 10)
    const reporters = part(size, 30, 5)
    // 90 an hour together at most: 100 of the hour's writes are kept for them.
    const period = Math.max(3 * minute, reporters * 40 * second)
    times(reporters, (index) =>
      start(
        reporter(
          world,
          { kind: "reporter", name: named("reporter", index), address: addressAt(19, index) },
          { loginAt: index * second, period }
        )
      )
    )
    times(flooders, (index) =>
      start(
        loop(
          world,
          {
            kind: "flooder",
            name: named("flooder", index),
            address: () => addressAt(20, index),
            pause: (size.isFull ? 2 : 4) * second,
            from: minute
          },
          () => requests.report(`nonsense ${newKey()}`, newKey())
        )
      )
    )
    const flooded = "192.0.2.77"
    start(
      loop(
        world,
        { kind: "one flooder", name: "flooder", address: () => flooded, pause: 2 * second, from: minute },
        () => requests.report(`one flooder ${newKey()}`, newKey())
      )
    )
    const stored = () => world.ledger.servedAtOnce("reporter", "use")
    const filed = () =>
      world.upstreams
        .issues()
        .filter(
          ({ body, createdAt, title }) =>
            createdAt >= began + minute && `${title} ${body}`.includes("verified reporter")
        ).length
    let waiting = 0
    start(async () => {
      await world.time.sleep(minute)
      for (;;) {
        await world.time.sleep(10 * second)
        waiting = Math.max(waiting, stored() - filed())
      }
    })
    return {
      from: minute,
      until,
      facts: () => ({
        "issues filed": world.upstreams.issues().length,
        "reports stored of one address": world.ledger.codesOf("one flooder", "use").get("served") ?? 0,
        "verified reports filed, part": stored() === 0 ? 0 : Math.min(1, filed() / stored()),
        "verified reports waiting at once": waiting
      })
    }
  },
  bounds: [
    { of: "reporter", group: "use", measure: "atOnce", least: 1, source: "measured" },
    { of: "reporter", group: "use", measure: "served", least: 0.999, source: "promised" },
    { of: "reporter", group: "use", measure: "p99Wait", most: 0, source: "promised" },
    // 60 at once or in the hour, and what is refilled in the run.
    { fact: "reports stored of one address", most: 100, source: "promised" },
    { fact: "issues filed", least: 200, source: "promised" },
    // A verified report overtakes all others, and a part of the hour is kept for it: only those of the last seconds wait.
    { fact: "verified reports filed, part", least: 0.95, source: "promised" },
    { fact: "verified reports waiting at once", most: 3, source: "measured" }
  ]
}

/** More telemetry than the table service takes, at the bound of the spool. */
const telemetry: Scenario = {
  name: "telemetry at the bound of the spool",
  settings: { telemetry: { spoolBytes: 2_000_000 } },
  honest: ["daemon", "sender"],
  play: (world, size) => {
    const until = lasting(size, 5, 15)
    daemons(world, 20)
    times(part(size, 15), (index) =>
      start(async () => {
        const client = makeClient(world, {
          kind: "sender",
          name: named("sender", index),
          address: addressAt(21, index)
        })
        await client.every(minute, () => client.perform("telemetry", () => requests.telemetry(10)))
      })
    )
    start(
      loop(
        world,
        { kind: "flooder", name: "flooder", address: () => "192.0.2.88", pause: second, from: minute },
        () => requests.telemetry(40, 1_000)
      )
    )
    world.upstreams.setTablesWork(false)
    world.time.after(until / 2, () => world.upstreams.setTablesWork(true))
    return { from: minute, until, facts: () => ({ "records shipped": world.upstreams.counts.records }) }
  },
  bounds: [
    ...wellServed("daemon"),
    ...evenlyServed("daemon", 0.8),
    { of: "sender", group: "use", measure: "served", least: 0.99, source: "measured" }
  ]
}

/** One sender of tings at full speed beside daemons. */
const tings: Scenario = {
  name: "tings at full speed",
  honest: ["daemon"],
  play: (world, size) => {
    const until = lasting(size, 4, 15)
    daemons(world)
    times(1, (index) =>
      start(async () => {
        const actor = `c:sender${index}`
        const session = await sessionOf(world, "sender", actor, addressAt(22, index))
        if (session === undefined) return
        const { accessToken } = session
        await loop(
          world,
          {
            kind: "sender",
            name: named("sender", index),
            address: () => addressAt(22, index),
            pause: 200,
            from: minute
          },
          () => requests.ting(accessToken, `${actor}/${newKey()}`)
        )()
      })
    )
    return { from: minute, until }
  },
  bounds: [
    ...wellServed("daemon"),
    ...evenlyServed("daemon", 0.8),
    { callsOf: ["sender"], most: 30, source: "promised" }
  ]
}

/** One actor with very many logins, each of which asks and refreshes all the time. */
const manyLogins: Scenario = {
  name: "one actor with very many logins",
  honest: ["daemon"],
  play: (world, size) => {
    daemons(world)
    const logins = part(size, 6, 50)
    times(logins, (index) =>
      start(async () => {
        const address = addressAt(23, index >> 3)
        await world.time.sleep(minute + index * 1.5 * second)
        const session = await sessionOf(world, "hoarder", "c:hoarder", address)
        if (session === undefined) return
        let { accessToken, refreshToken } = session
        start(
          loop(
            world,
            { kind: "hoarder", name: named("login", index), address: () => address, pause: 20 * second },
            () => requests.me(accessToken)
          )
        )
        for (;;) {
          await world.time.sleep(15 * second)
          const { body, code, status } = await world.send(address, requests.refresh(refreshToken, newKey()))
          world.ledger.sent("hoarder", named("login", index), status, code)
          if (typeof body.access_token !== "string" || typeof body.refresh_token !== "string") continue
          accessToken = body.access_token
          refreshToken = body.refresh_token
        }
      })
    )
    return { from: minute, until: minute + logins * 1.5 * second + lasting(size, 4, 15) }
  },
  bounds: [
    ...keepsSessions("daemon"),
    { of: "daemon", group: "use", measure: "served", least: 0.999, source: "promised" },
    // Essential calls go first: while its logins and refreshes come in a burst, some promises are kept late.
    { of: "daemon", group: "use", measure: "onTime", least: 0.8, source: "measured" },
    { of: "daemon", group: "use", measure: "p99Wait", most: 75, source: "measured" },
    ...evenlyServed("daemon", 0.9),
    // 40 logins, as fast as they come here, 30 refreshes at once and then 10, and 11 reads before it is busy.
    { callsOf: ["hoarder"], most: 91, source: "measured" }
  ]
}

/** IAM answers after seconds, so the places of waiting requests count. */
const slow: Scenario = {
  name: "a slow upstream",
  latency: (upstream, path) => (upstream === "iam" ? (path === "/oauth/introspect" ? 7_500 : 1_000) : 0),
  honest: ["daemon"],
  play: (world, size) => {
    const until = lasting(size, 2.5, 6)
    daemons(world)
    // More sessions of one address than its places serve, and more calls of each than a credential's places.
    times(12, (index) =>
      start(async () => {
        const address = "192.0.2.90"
        const session = await sessionOf(world, "hog", named("c:hog", index), address)
        if (session === undefined) return
        const { accessToken } = session
        await loop(
          world,
          { kind: "hog", name: named("hog", index), address: () => address, pause: 140, from: minute },
          () => requests.me(accessToken)
        )()
      })
    )
    return {
      from: minute,
      until,
      facts: () => ({
        "daemons refused without a place": world.ledger.codesOf("daemon", "use").get("overloaded") ?? 0
      })
    }
  },
  bounds: [
    ...keepsSessions("daemon"),
    { of: "daemon", group: "use", measure: "served", least: 0.999, source: "promised" },
    // The sessions of the address use the budget up, so reads of others wait for a call that ends.
    { of: "daemon", group: "use", measure: "p99Wait", most: 90, source: "measured" },
    // One address holds at most 100 of the 400 places, so others find one at once.
    { fact: "daemons refused without a place", most: 0, source: "promised" }
  ]
}

/** Another instance uses IAM's limit up, so IAM refuses. */
const refusedByIam: Scenario = {
  name: "IAM answers 429",
  iamRefuses: true,
  honest: ["daemon"],
  play: (world, size) => {
    const until = lasting(size, 6, 15)
    daemons(world)
    const from = 2 * minute
    // For two minutes the other instance makes all of IAM's calls of this path.
    times(240, (index) =>
      world.time.after(from + index * 500, () =>
        times(3, () => world.upstreams.callFromElsewhere("/oauth/introspect"))
      )
    )
    return {
      from: minute,
      until,
      facts: () => ({ "IAM 429": world.ledger.iamCalls.filter(({ status }) => status === 429).length })
    }
  },
  bounds: [
    { of: "daemon", group: "session", measure: "served", least: 0.999, source: "promised" },
    { of: "daemon", group: "use", measure: "served", least: 0.99, source: "measured" },
    // The two minutes, and the reads that waited for their end.
    { of: "daemon", group: "use", measure: "p99Wait", most: 180, source: "measured" },
    ...evenlyServed("daemon", 0.8),
    // One try in five seconds for the two minutes, and the first refusal of each pause.
    { fact: "IAM 429", most: 30, source: "promised" }
  ]
}

/** Everything at once. */
const everything: Scenario = {
  name: "all of them at once",
  settings: { telemetry: { spoolBytes: 2_000_000 }, reportsBytes: 2_000_000 },
  honest: ["daemon", "command line", "reporter", "tester", "page"],
  play: (world, size) => {
    const until = lasting(size, 4, 30)
    daemons(world, 40)
    visitors(world, { every: 20 * second, from: minute, until })
    times(part(size, 30), (index) =>
      start(
        page(world, { kind: "page", name: named("page", index), address: "192.0.2.1" }, index * 2 * second)
      )
    )
    times(5, (index) =>
      start(
        reporter(
          world,
          { kind: "reporter", name: named("reporter", index), address: addressAt(19, index) },
          { loginAt: index * second, period: 3 * minute }
        )
      )
    )
    const secret = world.upstreams.own(world.upstreams.environment.musicSecret, "tester")
    const tester = makeClient(world, { kind: "tester", name: "tester", address: addressAt(17, 1) })
    start(() => tester.every(30 * second, () => tester.perform("plane", () => requests.plane(secret))))

    loops(world, part(size, 300), second)
    const bots = size.count
    const ipv4 = (index: number) => addressAt(16, index % bots)
    strangers(world, "stranger", { addressOf: ipv4, pause: second, from: minute }, (made) =>
      requests.me(made.accessToken())
    )
    strangers(world, "stranger", { addressOf: ipv4, pause: second, from: minute }, (made) =>
      requests.refresh(made.refreshToken(), newKey())
    )
    strangers(
      world,
      "stranger",
      { addressOf: (index) => `2001:db8:7:${(index % 65_536).toString(16)}::1`, pause: second, from: minute },
      (made) => requests.login(made.slt(), newKey())
    )
    strangers(world, "stranger", { addressOf: () => "203.0.113.9", pause: second, from: minute }, (made) =>
      requests.plane(made.testingSecret())
    )
    times(part(size, 30), (index) =>
      start(
        loop(
          world,
          {
            kind: "flooder",
            name: named("flooder", index),
            address: () => addressAt(20, index),
            pause: 10 * second,
            from: minute
          },
          () => requests.report(`nonsense ${newKey()}`, newKey())
        )
      )
    )
    start(
      loop(
        world,
        { kind: "flooder", name: "telemetry", address: () => "192.0.2.88", pause: 5 * second, from: minute },
        () => requests.telemetry(40, 1_000)
      )
    )
    return { from: 2 * minute, until }
  },
  bounds: [
    ...wellServed("daemon"),
    ...wellServed("command line"),
    ...evenlyServed("daemon", 0.8),
    ...isServed("page"),
    { of: "reporter", group: "use", measure: "served", least: 0.999, source: "promised" },
    ...isServed("tester"),
    { callsOf: ["loop", "poller", "stranger"], most: 94, source: "promised" }
  ]
}

export const scenarios: ReadonlyArray<Scenario> = [
  beside,
  crowd,
  office,
  botnet,
  loginFlood,
  guesser,
  reports,
  telemetry,
  tings,
  manyLogins,
  slow,
  refusedByIam,
  everything
]
