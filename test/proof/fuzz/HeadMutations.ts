/** Mutations of the request line and of the request headers of docs/api.md. */
import type { Random } from "../../durability/Random.ts"
import { makeCanary } from "./Canary.ts"
import { type Draft, headerOf, setHeader } from "./Draft.ts"
import type { Mutation } from "./Mutation.ts"
import { pick } from "./Text.ts"
import type { World } from "./World.ts"

type Texts = readonly [string, ...ReadonlyArray<string>]

const latin1 = (text: string): string => Buffer.from(text).toString("latin1")

/** A text of exactly so many characters that begins with a canary where it fits. */
const filled = (length: number, start: string): string => start.slice(0, length).padEnd(length, "k")

/** Values of a header at and around its bounds, by its name in lower case. */
const shapes: Readonly<Record<string, (draft: Draft, random: Random, world: World) => string>> = {
  "idempotency-key": ({ index }, random) => {
    const canary = makeCanary("header", index)
    return pick(random, [
      filled(pick(random, [15, 16, 17, 254, 255, 256, 4_000]), canary),
      `${canary} with space`,
      `${canary}\t${canary}`,
      latin1(`${canary}é`),
      `${canary}\u00e9`,
      `${canary},${canary}`,
      `${canary}\u007f`,
      ""
    ])
  },
  authorization: ({ index, session }, random) => {
    const canary = makeCanary("header", index)
    const live = session?.access ?? "oat_"
    return pick(random, [
      `oat_${canary}`,
      `bearer ${live}`,
      `BEARER ${live}`,
      `Bearer  ${live}`,
      `Bearer\t${live}`,
      `Bearer ${live}.`,
      `Bearer ${live.slice(0, -1)}`,
      `Bearer ${live}, Bearer ${live}`,
      `Bearer oat_${filled(pick(random, [27, 28, 29, 8_187, 8_188, 8_189]), canary)}`,
      `Bearer ort_${filled(40, canary)}`,
      `Bearer ${session?.refresh ?? "ort_"}`,
      `Bearer ${canary}`,
      `Basic ${Buffer.from(`a:${canary}`).toString("base64")}`,
      "Bearer",
      "Bearer null",
      latin1(`Bearer oat_${filled(40, canary)}é`),
      ""
    ])
  },
  "x-org-id": ({ index }, random) => {
    const canary = makeCanary("header", index)
    return pick(random, [
      filled(pick(random, [2, 3, 50, 51]), canary),
      "zenith",
      "zenith",
      canary,
      "ACME",
      "acme ",
      "acme,zenith",
      "acme\u0085",
      "__proto__",
      "constructor",
      `${canary}.`,
      ""
    ])
  },
  "x-testing-environment-key": ({ index }, random, { upstreams }) => {
    const canary = makeCanary("header", index)
    return pick(random, [
      `ask_${filled(pick(random, [42, 43, 44]), canary)}`,
      `ask_${filled(43, canary)}`,
      `ask_${filled(43, canary)}`,
      upstreams.seeded.environment.tingSecret,
      upstreams.seeded.production.musicSecret,
      upstreams.seeded.environment.musicSecret,
      `${upstreams.seeded.environment.musicSecret},${upstreams.seeded.environment.musicSecret}`,
      upstreams.seeded.environment.musicSecret.toUpperCase(),
      upstreams.seeded.environment.rootKey,
      canary,
      latin1("ask_é"),
      ""
    ])
  },
  "x-request-id": ({ index }, random) =>
    pick(random, [
      filled(pick(random, [7, 8, 128, 129]), `r${index.toString(36)}-`),
      `${makeCanary("header", index)} x`,
      `${makeCanary("header", index)}/`,
      `${makeCanary("header", index)}\u00e9`,
      `oat_${filled(43, "A")}`,
      "__proto__",
      ""
    ]),
  "x-music-client-version": ({ index }, random) =>
    pick(random, [
      "0.0.1",
      "0.1.0",
      "0.1.0-rc.1",
      "0.1",
      "v0.0.1",
      "0.0.1-",
      `0.0.0-${"a".repeat(57)}`,
      `0.0.0-${"a".repeat(58)}`,
      `0.0.0-${"a".repeat(59)}`,
      "99999999999999999999.0.0",
      "0.0.99999999999999999999",
      `0.0.1 ${makeCanary("header", index)}`,
      "0.0.1, 0.0.1",
      ""
    ]),
  "x-music-source": ({ index }, random) =>
    pick(random, ["cli", "CLI", "__proto__", makeCanary("header", index), ""]),
  "x-music-telemetry": ({ index }, random) =>
    pick(random, ["on", "off", "ON", "on, on", makeCanary("header", index), ""]),
  traceparent: ({ index }, random) =>
    pick(random, [
      "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
      "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
      "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
      `00-${makeCanary("header", index)}-00f067aa0ba902b7-01`,
      "-".repeat(3_000),
      ""
    ]),
  origin: ({ index }, random, { webOrigin }) =>
    pick(random, [
      webOrigin,
      `${webOrigin}/`,
      webOrigin.toUpperCase(),
      "null",
      `http://${makeCanary("header", index)}.example`,
      `${webOrigin}, ${webOrigin}`,
      ""
    ]),
  "content-type": ({ index }, random) =>
    pick(random, [
      "application/json; charset=utf-8",
      'application/json;charset="UTF-8"',
      "Application/JSON",
      "application/json; charset=iso-8859-1",
      "application/json; charset=utf-16",
      "application/json;",
      "application/jsonp",
      "text/json",
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      "application/vnd.api+json",
      "application/json, application/json",
      "application/json text/plain",
      `application/json; ${makeCanary("header", index)}`,
      `${makeCanary("header", index)}/json`,
      ""
    ]),
  "x-silicon-iam-event-id": ({ index }, random) =>
    pick(random, [makeCanary("header", index), "01990c6e-5f0a-7c1e-8d3b-2a4f6b8c0d1e", ""]),
  "x-silicon-iam-timestamp": (_, random) => {
    const now = Math.floor(Date.now() / 1_000)
    return pick(random, [
      String(now - 400),
      String(now + 400),
      `0${now}`,
      `+${now}`,
      `${now}.0`,
      "1e9",
      "-1",
      ""
    ])
  },
  "x-silicon-iam-key-version": (_, random) => pick(random, ["0", "2", "01", "-1", "1.0", "1e0", ""]),
  "x-silicon-iam-signature": ({ index }, random) =>
    pick(random, [
      `v1=${"0".repeat(64)}`,
      `v1=${"0".repeat(63)}`,
      `v2=${"0".repeat(64)}`,
      `v1=${"é".repeat(64)}`,
      makeCanary("header", index),
      ""
    ])
}

const documented = Object.keys(shapes)
/** Headers that decide about the request; they are changed more often than those that only describe it. */
const deciding: ReadonlyArray<string> = [
  "idempotency-key",
  "authorization",
  "x-org-id",
  "x-testing-environment-key",
  "content-type",
  "origin"
]

/** The documented header of a request that the mutation is about; content-type only where there is a body. */
const chooseHeader = (draft: Draft, random: Random): string | undefined => {
  const fitting = documented.flatMap((name) => {
    const fits =
      (name === "authorization" && draft.operation !== undefined && draft.operation.bearer !== "none") ||
      (name === "content-type" && draft.body !== undefined) ||
      draft.operation?.parameters.has(name) === true
    return Array<string>(fits ? (deciding.includes(name) ? 4 : 1) : 0).fill(name)
  })
  return fitting[random.below(fitting.length)]
}

const onHeader = (
  name: string,
  change: (header: string, draft: Draft, random: Random, world: World) => void
): Mutation => ({
  name,
  stage: "head",
  apply: (draft, random, world) => {
    const header = chooseHeader(draft, random)
    if (header === undefined) return undefined
    change(header, draft, random, world)
    return header
  }
})

const shape = (header: string, draft: Draft, random: Random, world: World): string =>
  shapes[header]?.(draft, random, world) ?? ""

const extra = (name: string, headers: ReadonlyArray<readonly [string, string]>): Mutation => ({
  name,
  stage: "head",
  apply: (draft, random) => {
    const [header, value] = headers[random.below(headers.length)] ?? ["X", ""]
    draft.headers.push([header, value])
    return `${header}: ${value}`
  }
})

const headers: ReadonlyArray<Mutation> = [
  onHeader("header in another shape", (header, draft, random, world) => {
    setHeader(draft, header, shape(header, draft, random, world))
  }),
  onHeader("header left out", (header, draft) => {
    setHeader(draft, header)
  }),
  onHeader("header twice", (header, draft, random, world) => {
    const [value = ""] = headerOf(draft, header)
    setHeader(draft, header, value, random.below(2) === 0 ? value : shape(header, draft, random, world))
  }),
  onHeader("header name in another case", (header, draft) => {
    const [value] = headerOf(draft, header)
    if (value !== undefined) setHeader(draft, header.toUpperCase(), value)
  }),
  onHeader("spaces around a header", (header, draft) => {
    const [value] = headerOf(draft, header)
    if (value !== undefined) setHeader(draft, header, ` \t ${value} \t `)
  }),
  extra("another header", [
    ["Cookie", "session=zqx; __proto__=1"],
    ["DNT", "1"],
    ["Sec-GPC", "1"],
    ["Expect", "100-continue"],
    ["Expect", "200-ok"],
    ["TE", "trailers, deflate;q=0.5"],
    ["Range", "bytes=0-1"],
    ["If-None-Match", "*"],
    ["If-Match", '"x"'],
    ["If-Modified-Since", "Wed, 21 Oct 2015 07:28:00 GMT"],
    ["X-HTTP-Method-Override", "DELETE"],
    ["X-Original-URL", "/readyz"],
    ["Forwarded", "for=1.2.3.4"],
    ["__proto__", "polluted"],
    ["constructor", "polluted"],
    ["Accept", "application/xml"],
    ["Accept-Encoding", "gzip;q=0, *;q=0"],
    ["Content-Language", "de"],
    ["Upgrade", "h2c"],
    ["Upgrade", "websocket"],
    ["Via", "1.1 proxy"],
    ["X-Org-ID-", "acme"],
    ["Access-Control-Request-Method", "POST"]
  ]),
  {
    name: "connection header",
    stage: "head",
    apply: (draft, random) => {
      const value = pick(random, [
        "close",
        "Close, keep-alive",
        "keep-alive",
        "Upgrade",
        "TE, close",
        "x-org-id, close"
      ])
      if (value === "Upgrade") draft.headers.push(["Upgrade", "websocket"])
      setHeader(draft, "Connection", value)
      draft.last = true
      return value
    }
  },
  {
    name: "many headers",
    stage: "head",
    apply: (draft, random) => {
      const count = 100 + random.below(900)
      for (let number = 0; number < count; number += 1) draft.headers.push([`X-${number}`, "v"])
      return String(count)
    }
  },
  {
    name: "long header",
    stage: "head",
    apply: (draft, random) => {
      const size = pick(random, [4_000, 12_000, 16_384, 17_500, 40_000, 200_000])
      draft.headers.push(["X-Long", makeCanary("header", draft.index) + "v".repeat(size)])
      return String(size)
    }
  },
  {
    name: "address that many requests share",
    stage: "head",
    apply: (draft) => {
      draft.address = "192.0.2.1"
      draft.open = true
      return ""
    }
  },
  {
    name: "odd X-Forwarded-For",
    stage: "head",
    apply: (draft, random) => {
      draft.address = pick(random, [
        `junk, ${draft.address}`,
        `${draft.address}, 127.0.0.1`,
        `${draft.address}:4711`,
        `[2001:db8:${draft.index.toString(16).slice(-4)}::7]:443`,
        `::ffff:${draft.address.includes(":") ? `10.9.${draft.index & 255}.${(draft.index >> 8) & 255}` : draft.address}`
      ])
      return draft.address
    }
  },
  {
    name: "no Host, or two",
    stage: "head",
    apply: (draft, random) => {
      const [host = ""] = headerOf(draft, "host")
      const given = pick<ReadonlyArray<string>>(random, [
        [],
        [host, host],
        [host, "evil.example"],
        [""],
        ["evil.example"]
      ])
      setHeader(draft, "Host", ...given)
      return `${given.length}`
    }
  }
]

const methods: Texts = [
  "GET",
  "HEAD",
  "OPTIONS",
  "TRACE",
  "PUT",
  "PATCH",
  "DELETE",
  "POST",
  "PROPFIND",
  "QUERY",
  "SEARCH",
  "M-SEARCH"
]

const line: ReadonlyArray<Mutation> = [
  {
    name: "another method",
    stage: "head",
    apply: (draft, random) => {
      if (draft.malformed !== undefined || draft.method === "CONNECT") return undefined
      draft.method = pick(random, methods)
      return draft.method
    }
  },
  {
    name: "unknown method",
    stage: "head",
    apply: (draft, random) => {
      draft.method = pick(random, ["get", "Post", "FOO", "GETS", "__PROTO__", "G\u00e9T"])
      draft.malformed ??= "refused"
      return draft.method
    }
  },
  {
    name: "CONNECT",
    stage: "head",
    apply: (draft, random) => {
      if (draft.malformed !== undefined || draft.method === "CONNECT") return undefined
      draft.method = "CONNECT"
      draft.target = pick(random, ["example.com:443", "127.0.0.1:80", "/healthz"])
      draft.last = true
      return draft.target
    }
  },
  {
    name: "another path",
    stage: "head",
    apply: (draft, random) => {
      const path = draft.target
      if (draft.method === "CONNECT" || !path.startsWith("/")) return undefined
      const canary = makeCanary("path", draft.index)
      const middle = Math.floor(path.length / 2)
      draft.target = pick(random, [
        `/${path}`,
        `${path}/`,
        `${path}//`,
        path.toUpperCase(),
        `${path.slice(0, middle)}%${path.charCodeAt(middle).toString(16)}${path.slice(middle + 1)}`,
        path.replace(/\/(?=[^/]+$)/, "%2F"),
        `/.${path}`,
        `/${canary}/..${path}`,
        `${path}/../${canary}`,
        `${path};${canary}`,
        `${path}%00`,
        `${path}%0d%0aX-Injected:%201`,
        `/${canary}`,
        `/__proto__`,
        `/constructor`,
        `/api/v1/${canary}`,
        `${path}/${"a".repeat(3_000)}`
      ])
      if (!draft.target.startsWith("/")) draft.malformed ??= "refused"
      return draft.target.slice(0, 60)
    }
  },
  {
    name: "query or fragment",
    stage: "head",
    apply: (draft, random) => {
      if (draft.method === "CONNECT") return undefined
      const canary = makeCanary("path", draft.index)
      draft.target += pick(random, [
        `?${canary}`,
        "?",
        `?a=${canary}&a=2`,
        `#${canary}`,
        "?__proto__[x]=1",
        `?x=/../${canary}`
      ])
      return ""
    }
  },
  {
    name: "absolute target",
    stage: "head",
    apply: (draft, random) => {
      if (draft.method === "CONNECT" || !draft.target.startsWith("/")) return undefined
      draft.target =
        pick(random, [
          "http://127.0.0.1",
          "HTTP://evil.example:80",
          "https://127.0.0.1",
          "http://user@127.0.0.1"
        ]) + draft.target
      return draft.target
    }
  },
  {
    name: "asterisk target",
    stage: "head",
    apply: (draft, random) => {
      if (draft.malformed !== undefined || draft.method === "CONNECT") return undefined
      draft.target = "*"
      if (random.below(2) === 0) draft.method = "OPTIONS"
      return draft.method
    }
  },
  {
    name: "HTTP/1.0",
    stage: "head",
    apply: (draft, random) => {
      draft.version = "1.0"
      draft.last = true
      if (random.below(2) === 0) setHeader(draft, "Host")
      return ""
    }
  }
]

const usesSessions: Mutation = {
  name: "a session of another plane",
  stage: "head",
  apply: (draft, _, world) => {
    if (
      draft.session === undefined ||
      draft.operation?.id === "auth.refresh" ||
      draft.operation?.id === "auth.logout"
    )
      return undefined
    if (draft.plane === "production") setHeader(draft, "X-Testing-Environment-Key", world.testingSecret)
    else setHeader(draft, "X-Testing-Environment-Key")
    return draft.plane
  }
}

export const headMutations: ReadonlyArray<Mutation> = [...headers, ...line, usesSessions]
