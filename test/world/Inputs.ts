/**
 * Requests that are wrong or odd in one way, and what docs/api.md says about each: the fuzzer combines them, and tests of HTTP play them one
 * by one. The answer to several at once is that of the earliest step of the order of checks.
 */
import { gzipSync } from "node:zlib"
import type { Operation } from "./Contract.ts"

/** docs/api.md, "Order of checks", with what comes before it and the parts of its last step. */
export const steps = [
  "transport",
  "host",
  "path",
  "method",
  "media type",
  "declared length",
  "idempotency key",
  "bearer shape",
  "organisation shape",
  "selector shape",
  "size",
  "JSON",
  "schema",
  "limits",
  "plane",
  "pull request",
  "bearer",
  "membership",
  "use case"
] as const
export type Step = (typeof steps)[number]

export type Outcome =
  | { readonly kind: "accepted" }
  | {
      readonly kind: "refused"
      readonly step: Step
      readonly status: number
      readonly code: string
      /** The path and a part of the problem of the first of `details.fields`. */
      readonly says: readonly [path: string, problem: string] | undefined
    }
  /** 204 with `Allow`, before any later check. */
  | { readonly kind: "options"; readonly step: "method" }
  /** From this step on any documented answer is right; at `transport` also none, or a second one. */
  | { readonly kind: "open"; readonly step: Step }

export const accepted: Outcome = { kind: "accepted" }
export const open = (step: Step): Outcome => ({ kind: "open", step })
export const refused = (
  step: Step,
  status: number,
  code: string,
  says?: readonly [path: string, problem: string]
): Outcome => ({ kind: "refused", step, status, code, says })

/** The answer to a request with several inputs. */
export const combine = (outcomes: ReadonlyArray<Outcome>): Outcome => {
  const rank = (outcome: Outcome) =>
    outcome.kind === "accepted" ? steps.length : steps.indexOf(outcome.step)
  const first = [...outcomes].sort((one, other) => rank(one) - rank(other))[0] ?? accepted
  if (first.kind !== "refused") return first
  const rivals = outcomes.filter((outcome) => rank(outcome) === rank(first))
  const same = (outcome: Outcome) =>
    outcome.kind === "refused" && outcome.status === first.status && outcome.code === first.code
  if (!rivals.every(same)) return open(first.step)
  // Of two problems of one step either is named first.
  return rivals.length === 1 ? first : { ...first, says: undefined }
}

type Framing =
  | { readonly kind: "length" }
  | { readonly kind: "chunked"; readonly extension: string; readonly trailer: string }
  /** The bytes after the head are sent as they are, under the given header lines. */
  | { readonly kind: "raw"; readonly lines: ReadonlyArray<string>; readonly bytes: Buffer }

export interface Message {
  readonly method: string
  readonly target: string
  /** As written after `HTTP/`. */
  readonly version: string
  /** Names and values as Latin-1 text: one character is one byte. */
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly body: Buffer | undefined
  readonly framing: Framing
  /** Lines of the head that are no headers. */
  readonly lines: ReadonlyArray<string>
  /** Complete bytes that replace everything else. */
  readonly verbatim: Buffer | undefined
  /** No other request may follow on its connection. */
  readonly last: boolean
  /** The end of the bytes is the end of the client's side. */
  readonly halfClose: boolean
}

/** What an input needs to know about the request and its world. */
export interface Facts {
  /** Absent: a document or no path. */
  readonly call: Operation | undefined
  readonly plane: "production" | "testing"
  readonly actor: string
  /** The live access token; the secret of this application in the testing plane, and well-formed secrets of others. */
  readonly access: string
  readonly testingSecret: string
  readonly otherSecrets: readonly [string, string, string]
  readonly webOrigin: string
  /** A word of lower-case letters and digits that occurs nowhere else. */
  readonly word: (place: "body" | "header" | "path") => string
  /** Seconds since the epoch. */
  readonly now: number
  /** From 0 to 1: where something is cut or changed. */
  readonly place: number
}

export interface Input {
  readonly name: string
  /** What it changes: two inputs with one part in common are never combined. */
  readonly parts: ReadonlyArray<string>
  readonly outcome: Outcome | ((facts: Facts, message: Message) => Outcome)
  /** Undefined where the request has nothing of that kind. */
  readonly change: (message: Message, facts: Facts) => Message | undefined
}

export const outcomeOf = ({ outcome }: Input, facts: Facts, message: Message): Outcome =>
  typeof outcome === "function" ? outcome(facts, message) : outcome

const input = (
  name: string,
  parts: ReadonlyArray<string>,
  outcome: Input["outcome"],
  changed: (message: Message, facts: Facts) => Partial<Message> | undefined
): Input => ({
  name,
  parts,
  outcome,
  change: (message, facts) => {
    const change = changed(message, facts)
    return change === undefined ? undefined : { ...message, ...change }
  }
})

const crlf = "\r\n"

const chunks = (body: Buffer, extension: string): Buffer => {
  const size = Math.max(1, Math.ceil(body.length / 3))
  const parts: Array<Buffer> = []
  for (let at = 0; at < body.length; at += size) {
    const part = body.subarray(at, at + size)
    parts.push(Buffer.from(`${part.length.toString(16)}${extension}${crlf}`), part, Buffer.from(crlf))
  }
  return Buffer.concat(parts)
}

export const writeMessage = (message: Message): Buffer => {
  if (message.verbatim !== undefined) return message.verbatim
  const { body, framing } = message
  const lines = [
    `${message.method} ${message.target} HTTP/${message.version}`,
    ...message.headers.map(([name, value]) => `${name}: ${value}`),
    ...message.lines
  ]
  let content: Buffer = Buffer.alloc(0)
  if (framing.kind === "raw") {
    lines.push(...framing.lines)
    content = framing.bytes
  } else if (framing.kind === "chunked") {
    lines.push("Transfer-Encoding: chunked")
    const end = Buffer.from(`0${crlf}${framing.trailer}${crlf}`)
    content = Buffer.concat([chunks(body ?? Buffer.alloc(0), framing.extension), end])
  } else if (body !== undefined) {
    lines.push(`Content-Length: ${body.length}`)
    content = body
  }
  return Buffer.concat([Buffer.from(`${lines.join(crlf)}${crlf}${crlf}`, "latin1"), content])
}

export const valuesOf = ({ headers }: Pick<Message, "headers">, name: string): ReadonlyArray<string> =>
  headers.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value)

const withHeader = (message: Message, name: string, ...values: ReadonlyArray<string>) => ({
  headers: [
    ...message.headers.filter(([each]) => each.toLowerCase() !== name.toLowerCase()),
    ...values.map((value) => [name, value] as const)
  ]
})

const latin1 = (text: string): string => Buffer.from(text).toString("latin1")
/** A text of exactly so many characters. */
const filled = (length: number, start: string): string => start.slice(0, length).padEnd(length, "k")

// Headers

const malformedHead = refused("transport", 400, "invalid_input")
const keyMissing = refused("idempotency key", 400, "idempotency_key_required")
const badKey = refused("idempotency key", 400, "idempotency_key_invalid")
const bearerThat = (problem: string) =>
  refused("bearer shape", 401, "unauthenticated", ["Authorization", problem])
const badBearer = bearerThat("access token after the scheme")
const badScheme = bearerThat("the scheme `Bearer`")
const deadBearer = refused("bearer", 401, "unauthenticated")
const organisationThat = (problem: string) =>
  refused("organisation shape", 400, "invalid_input", ["X-Org-ID", problem])
const badOrganisation = organisationThat("must be 3 to 50 of a-z, 0-9, underscore and hyphen")
const notMember = refused("membership", 403, "forbidden")
const badSelector = refused("selector shape", 401, "testing_secret_invalid")
const deadSelector = refused("plane", 401, "testing_secret_invalid")
const badType = refused("media type", 415, "unsupported_media_type")
const badSignature = refused("bearer", 401, "webhook_signature_invalid")

/** A testing secret or its absence decides about the plane of the credentials. */
const inOtherPlane = ({ call, plane }: Facts, message: Message, other: Facts["plane"]): Outcome => {
  if (plane === other) return accepted
  if (call?.id === "auth.login" || call?.id === "auth.refresh") return open("use case")
  return valuesOf(message, "authorization").length === 0 ? accepted : deadBearer
}
const inTesting: Input["outcome"] = (facts, message) => inOtherPlane(facts, message, "testing")
const inProduction: Input["outcome"] = (facts, message) => inOtherPlane(facts, message, "production")

type Value = string | ((facts: Facts) => string)
type Shape = readonly [name: string, value: Value, outcome: Input["outcome"]]

const atTelemetry =
  (outcome: Outcome): Input["outcome"] =>
  ({ call }) =>
    call?.id === "telemetry.accept" ? outcome : accepted
const foreignOrigin = atTelemetry(refused("use case", 403, "origin_not_allowed"))

const word = ({ word: make }: Facts): string => make("header")
/** A word of a length after a beginning. */
const ofLength =
  (length: number, start = ""): Value =>
  (facts) =>
    start + filled(length, word(facts))
const bearerOf = (length: number) => ofLength(length, "Bearer oat_")
const secretOf = (length: number) => ofLength(length, "ask_")
const odd = <A extends string>(texts: ReadonlyArray<A>, outcome: Input["outcome"]): ReadonlyArray<Shape> =>
  texts.map((text) => [JSON.stringify(text.slice(0, 40)), text, outcome] as const)

/** Headers that describe the client: no value of them is refused. */
const describing = [
  ...["request-id", "music-client-version", "music-source", "music-telemetry"].map((name) => `x-${name}`),
  "traceparent"
]
const ofNoEffect: ReadonlyArray<Shape> = [
  ...odd(["x".repeat(3_000), `oat_${"A".repeat(43)}`, "__proto__", "on", "off", ""], accepted),
  // A valid X-Request-Id is repeated.
  ["Latin-1", (facts) => `${word(facts)}\u00e9`, accepted]
]

/** Values of each request header at and around its bounds. */
const shapes: Readonly<Record<string, ReadonlyArray<Shape>>> = {
  "idempotency-key": [
    ...[16, 255].map((length): Shape => [`${length} characters`, ofLength(length), accepted]),
    ...[15, 256].map((length): Shape => [`${length} characters`, ofLength(length), badKey]),
    ["a comma", (facts) => `${word(facts)},${word(facts)}`, accepted],
    ["a space", (facts) => `${word(facts)} with space`, badKey],
    ["Latin-1", (facts) => `${word(facts)}\u00e9`, badKey],
    ["a delete character", (facts) => `${word(facts)}\u007f`, malformedHead]
  ],
  authorization: [
    ["a scheme in upper case", ({ access }) => `BEARER ${access}`, badScheme],
    ["another scheme", (facts) => `Basic ${Buffer.from(`a:${word(facts)}`).toString("base64")}`, badScheme],
    ["two spaces", ({ access }) => `Bearer  ${access}`, badBearer],
    ["two in one", ({ access }) => `Bearer ${access}, Bearer ${access}`, badBearer],
    ["a letter before the token", ({ access }) => `Bearer x${access}`, badBearer],
    ["a refresh token", ofLength(40, "Bearer ort_"), badBearer],
    ...[27, 8_189].map((length): Shape => [`${length} characters`, bearerOf(length), badBearer]),
    ...[28, 8_188].map((length): Shape => [`${length} characters`, bearerOf(length), deadBearer]),
    ...odd([""], badScheme),
    ...odd(["Bearer"], badBearer)
  ],
  "x-org-id": [
    ...[2, 51].map((length): Shape => [`${length} characters`, ofLength(length), badOrganisation]),
    ...[3, 50].map((length): Shape => [`${length} characters`, ofLength(length), notMember]),
    ...odd(["zenith", "__proto__"], notMember),
    ...odd(["ACME", "acme,zenith", ""], badOrganisation)
  ],
  "x-testing-environment-key": [
    ...[42, 44].map((length): Shape => [`${length} characters`, secretOf(length), badSelector]),
    ["43 characters", secretOf(43), deadSelector],
    ["a secret of Ting", ({ otherSecrets: [secret] }) => secret, deadSelector],
    ["a production secret", ({ otherSecrets: [, secret] }) => secret, deadSelector],
    ["a root key", ({ otherSecrets: [, , secret] }) => secret, badSelector],
    ["the secret", ({ testingSecret }) => testingSecret, inTesting],
    ["upper case", ({ testingSecret }) => testingSecret.toUpperCase(), badSelector],
    ...odd([""], badSelector)
  ],
  ...Object.fromEntries(describing.map((name) => [name, ofNoEffect])),
  origin: [
    ["a path", ({ webOrigin }) => `${webOrigin}/`, foreignOrigin],
    ["a longer host", ({ webOrigin }) => `${webOrigin}.evil.example`, foreignOrigin],
    ["another host", (facts) => `http://${word(facts)}.example`, foreignOrigin],
    ...odd(["null", ""], foreignOrigin)
  ],
  "content-type": [
    ...["; charset=utf-8", ' ; charset="UTF-8"'].map(
      (parameter): Shape => [parameter, `application/json${parameter}`, accepted]
    ),
    ...["; charset=iso-8859-1", "; charset=utf-8; x=y", ", application/json"].map(
      (more): Shape => [`${more} after it`, `application/json${more}`, badType]
    ),
    ...odd(["Application/JSON"], accepted),
    ...odd(
      ["xapplication/json", "text/plain", "multipart/form-data; boundary=application/json", ""],
      badType
    ),
    ["another type", (facts) => `${word(facts)}/json`, badType],
    // A parameter without meaning may be refused or ignored.
    ["a parameter", (facts) => `application/json; ${word(facts)}`, open("media type")]
  ],
  "content-encoding": [...odd(["Identity"], accepted), ...odd(["gzip, identity"], badType)],
  "x-silicon-iam-event-id": odd(["01990c6e-5f0a-7c1e-8d3b-2a4f6b8c0d1e", ""], badSignature),
  "x-silicon-iam-timestamp": [
    ["400 s ago", ({ now }) => String(now - 400), badSignature],
    ["a zero before", ({ now }) => `0${now}`, badSignature],
    ...odd([""], badSignature)
  ],
  "x-silicon-iam-key-version": odd(["2", "01", ""], badSignature),
  "x-silicon-iam-signature": odd([`v1=${"0".repeat(64)}`, `v1=${"é".repeat(64)}`, ""], badSignature)
}

interface Documented {
  /** Without it, and when it is there twice. */
  readonly missing: Input["outcome"]
  readonly twice: Input["outcome"]
  /** Only where the request has it already. */
  readonly present?: boolean
}

const anonymous: Input["outcome"] = ({ call }) =>
  call?.bearer === "optional" ? accepted : bearerThat("is missing")
const ofDelivery: Documented = { missing: badSignature, twice: badSignature, present: true }
/** An absent body needs no type. */
const untyped: Input["outcome"] = (_, { body }) => (body?.length === 0 ? accepted : badType)

const documented: Readonly<Record<string, Documented>> = {
  "idempotency-key": { missing: keyMissing, twice: badKey, present: true },
  authorization: { missing: anonymous, twice: bearerThat("exactly once"), present: true },
  "x-org-id": {
    missing: organisationThat("is required together with Authorization"),
    twice: badOrganisation,
    present: true
  },
  "x-testing-environment-key": { missing: inProduction, twice: badSelector },
  ...Object.fromEntries(describing.map((name) => [name, { missing: accepted, twice: accepted }])),
  origin: { missing: accepted, twice: foreignOrigin },
  "content-type": { missing: untyped, twice: badType, present: true },
  "content-encoding": { missing: accepted, twice: open("media type"), present: true },
  ...Object.fromEntries(
    ["event-id", "timestamp", "key-version", "signature"].map((name) => [`x-silicon-iam-${name}`, ofDelivery])
  )
}

/** Whether the request may have the header, or has it. */
const takes = (name: string, { present }: Documented, message: Message, { call }: Facts): boolean => {
  if (name === "content-encoding") return message.body !== undefined && call?.body !== undefined
  if (present === true) return valuesOf(message, name).length > 0
  return call?.parameters.has(name) === true || (name === "origin" && call !== undefined)
}

const headerInputs: ReadonlyArray<Input> = Object.entries(documented).flatMap(([name, header]) => {
  const valued = (
    title: string,
    outcome: Input["outcome"],
    values: (message: Message, facts: Facts) => ReadonlyArray<string>,
    written = name
  ) => {
    // Without a bearer the organisation is not read.
    const more = name === "authorization" && title === "left out" ? ["x-org-id"] : []
    return input(`${name}: ${title}`, [name, ...more], outcome, (message, facts) =>
      takes(name, header, message, facts)
        ? withHeader(message, written, ...values(message, facts))
        : undefined
    )
  }
  const own = (message: Message) => valuesOf(message, name).slice(0, 1)
  const given = (value: Value, facts: Facts) => (typeof value === "string" ? value : value(facts))
  return [
    ...(shapes[name] ?? []).map(([title, value, outcome]) =>
      valued(title, outcome, (_, facts) => [given(value, facts)])
    ),
    valued("left out", header.missing, () => []),
    valued("twice", header.twice, (message) => [...own(message), ...own(message), "x", "x"].slice(0, 2)),
    valued("and an empty one", header.twice, (message) => [...own(message), "", ""].slice(0, 2)),
    valued("name in another case", accepted, own, name.toUpperCase()),
    valued("spaces around", accepted, (message) => own(message).map((value) => ` \t ${value} \t `))
  ]
})

/** Headers without a meaning here, and ends of lines in the forms that some reader takes for one: U+560D and U+560A end in CR and LF. */
const extraHeaders: ReadonlyArray<readonly [string, string]> = [
  ["Cookie", "session=zqx; __proto__=1"],
  ["Expect", "100-continue"],
  ["Expect", "200-ok"],
  ["X-HTTP-Method-Override", "DELETE"],
  ["__proto__", "polluted"],
  ["Upgrade", "h2c"],
  ...["Access-Control-Request-Headers", "Forwarded", "User-Agent", "Referer"].map(
    (name) => [name, latin1("$word\u0085\u2028\u560d\u560a\u009b31mX-Injected: 1")] as const
  )
]

const hostOutcome =
  (count: number): Input["outcome"] =>
  (_, { version }) =>
    count === 1 || version === "1.0"
      ? accepted
      : refused("host", 400, "invalid_input", ["Host", "must be sent exactly once"])

const adding = (message: Message, ...headers: Message["headers"]) => ({
  headers: [...message.headers, ...headers]
})

const otherHeaders: ReadonlyArray<Input> = [
  ...extraHeaders.map(([name, value]) =>
    input(`${name}: ${value}`, ["extra"], accepted, (message, facts) =>
      adding(message, [name, value.replace("$word", word(facts))])
    )
  ),
  ...[[], ["a.example", "evil.example"], [""], ["evil.example"]].map((hosts) =>
    input(`Host: ${JSON.stringify(hosts)}`, ["host"], hostOutcome(hosts.length), (message) =>
      withHeader(message, "Host", ...hosts)
    )
  ),
  input("900 headers", ["size of the head"], accepted, (message) =>
    adding(message, ...Array.from({ length: 900 }, (_, at) => [`X-${at}`, "v"] as const))
  ),
  ...[12_000, 16_384, 200_000].map((size) =>
    input(
      `a header of ${size} bytes`,
      // The answer of the transport to HEAD has a body.
      ["size of the head", "line"],
      size < 16_384 ? accepted : refused("transport", 431, "invalid_input"),
      (message, facts) => ({
        ...adding(message, ["X-Long", word(facts) + "v".repeat(size)]),
        last: true
      })
    )
  )
]

// Request line

const notFound = refused("path", 404, "not_found")

const paths: ReadonlyArray<readonly [string, (path: string, word: string) => string]> = [
  ["a slash before", (path) => `/${path}`],
  ["a slash after", (path) => `${path}/`],
  ["upper case", (path) => path.toUpperCase()],
  ["a percent code", (path) => path.replace(/.$/, (last) => `%${last.charCodeAt(0).toString(16)}`)],
  ["a way up before", (path, word) => `/${word}/..${path}`],
  ["a word", (_, word) => `/${word}`],
  ["3,000 characters", (path) => `${path}/${"a".repeat(3_000)}`]
]

const line = (
  name: string,
  outcome: Input["outcome"],
  changed: (message: Message, facts: Facts) => Partial<Message> | undefined
) => input(name, ["line"], outcome, changed)

const refusedMethod = refused("method", 405, "method_not_allowed")

export const lineInputs: ReadonlyArray<Input> = [
  ...["PUT", "PATCH", "DELETE", "TRACE", "QUERY"].map((method) =>
    line(`method ${method}`, refusedMethod, () => ({ method }))
  ),
  line("the method of other calls", refusedMethod, ({ method }) => ({
    method: method === "GET" ? "POST" : "GET"
  })),
  // Every call with a body is a POST.
  line(
    "HEAD",
    ({ call }) => (call?.body === undefined ? accepted : refusedMethod),
    () => ({ method: "HEAD" })
  ),
  line("OPTIONS", { kind: "options", step: "method" }, () => ({ method: "OPTIONS" })),
  line("an asterisk", notFound, () => ({ target: "*" })),
  ...["get", "FOO", "G\u00e9T"].map((method) =>
    line(`method ${method}`, malformedHead, () => ({ method, last: true }))
  ),
  {
    ...line("CONNECT", notFound, () => ({ method: "CONNECT", target: "example.com:443", last: true })),
    // It has no path, so its Host does not matter.
    parts: ["line", "host"]
  },
  ...paths.map(([name, change]) =>
    line(`path with ${name}`, notFound, ({ target }, { call, word: make }) => {
      const changed = change(target, make("path"))
      // That is the other spelling of its path.
      const isServed = changed === target || changed === "/webhook/"
      return call === undefined || isServed ? undefined : { target: changed }
    })
  ),
  ...["?a=$&a=/../2", "?", "#$"].map((query) =>
    line(`target with ${query}`, accepted, ({ target }, { word: make }) => ({
      target: target + query.replace("$", make("path"))
    }))
  ),
  ...["http://127.0.0.1", "HTTPS://evil.example:80"].map((origin) =>
    line(`target at ${origin}`, accepted, ({ target }) => ({ target: origin + target }))
  ),
  line("HTTP/1.0", accepted, () => ({ version: "1.0", last: true })),
  {
    ...line("HTTP/1.0 and no Host", accepted, (message) => ({
      ...withHeader(message, "Host"),
      ...{ version: "1.0", last: true }
    })),
    parts: ["line", "host"]
  }
]

// Bytes of the body

const jsonThat = (problem: string) => refused("JSON", 400, "invalid_input", ["body", problem])
const badJson = jsonThat("is not valid JSON")
/** Of characters that are perhaps cut: of both problems the first one is named. */
const badText = jsonThat("is not valid")
const noObject = jsonThat("must be an object")
const badUtf8 = jsonThat("is not valid UTF-8")
const deepJson = jsonThat("nests deeper than 64 levels")
const protoKey = jsonThat("holds a __proto__ key")
const surrogate = jsonThat("holds a lone surrogate")
const badShape = refused("schema", 400, "invalid_input")

const bytesOf = (...values: ReadonlyArray<number>) => Buffer.from(values)

const text = (
  name: string,
  outcome: Input["outcome"],
  changed: (body: Buffer, facts: Facts) => Buffer | undefined,
  parts = ["text"]
) =>
  input(`body: ${name}`, parts, outcome, ({ body: given }, facts) => {
    const body = given === undefined || facts.call?.body === undefined ? undefined : changed(given, facts)
    return body === undefined ? undefined : { body }
  })

const withText = ["reports.submit", "tings.send", "telemetry.accept", "webhooks.receive"]

/** Puts bytes into the last text of the body that has the request's own word, where everything is allowed. */
const inText = (outcome: Outcome, bytes: Buffer | string): Input =>
  text(
    `${typeof bytes === "string" ? JSON.stringify(bytes) : bytes.toString("hex")} in a text`,
    outcome,
    (body, { call, word: make }) => {
      const at = withText.includes(call?.id ?? "") ? body.lastIndexOf(make("body")) : -1
      const parts = [body.subarray(0, at), Buffer.from(bytes), body.subarray(at)]
      return at === -1 ? undefined : Buffer.concat(parts)
    }
  )

const another = (value: Value, outcome: Input["outcome"]) => {
  const made = (facts: Facts) => (typeof value === "string" ? value : value(facts))
  const name = typeof value === "string" ? value.slice(0, 40) : "a word"
  return text(name, outcome, (_, facts) => Buffer.from(made(facts)), ["text", "value"])
}

export const bodyInputs: ReadonlyArray<Input> = [
  text("a byte order mark", badJson, (body) => Buffer.concat([bytesOf(0xef, 0xbb, 0xbf), body])),
  ...[",", "{}", "\0"].map((end) =>
    text(`${JSON.stringify(end)} after it`, badJson, (body) => Buffer.concat([body, Buffer.from(end)]))
  ),
  text("white space around", accepted, (body) =>
    Buffer.concat([Buffer.from(" \r\n\t"), body, Buffer.from("\n \t\r")])
  ),
  text("cut short", badText, (body, { place }) =>
    body.subarray(0, 1 + Math.floor(place * (body.length - 1.01)))
  ),
  text(
    "empty",
    ({ call }) => (call?.body?.required === true ? jsonThat("is empty") : accepted),
    () => Buffer.alloc(0)
  ),
  text("UTF-16", badText, (body) => Buffer.from(body.toString(), "utf16le")),
  text("a field twice", accepted, (body) => {
    const name = /^\{("[^"]*"):/.exec(body.toString())?.[1]
    return name === undefined ? undefined : Buffer.from(`{${name}:null,${body.toString().slice(1)}`)
  }),
  ...["NaN", '"\\', "[".repeat(15_000)].map((value) => another(value, badJson)),
  ...["null", "[]", "0"].map((value) => another(value, noObject)),
  another(({ word: make }) => `"${make("body")}"`, noObject),
  another("{}", ({ call }) => (call?.id === "tings.subscribe" ? accepted : badShape)),
  ...["[".repeat(7_500) + "]".repeat(7_500), `["\\"]",${"[".repeat(64)}${"]".repeat(65)}`].map((value) =>
    another(value, deepJson)
  ),
  ...['{"__proto__":{"x":1}}', '{"\\u005f_proto__":{"x":1}}'].map((value) => another(value, protoKey)),
  ...['{"a":[1e309]}', "-1e400", "9".repeat(400)].map((value) =>
    another(value, jsonThat("holds a number that is too large"))
  ),
  input("body: gzip", ["text", "content-encoding"], badType, (message, { call }) =>
    message.body === undefined || call?.body === undefined
      ? undefined
      : { ...withHeader(message, "Content-Encoding", "gzip"), body: gzipSync(message.body) }
  ),
  text("gzip without its name", badUtf8, (body) => gzipSync(body)),
  ...["\\ud800", "\\udc00\\ud800"].map((escape) => inText(surrogate, escape)),
  // A surrogate, an overlong form, a cut character.
  ...["eda080", "c080", "f09f8e"].map((hex) => inText(badUtf8, Buffer.from(hex, "hex"))),
  // Control characters, and escapes that are unknown or too short.
  ...["\0", "\n", "\\x41", "\\u12"].map((given) => inText(badJson, given)),
  // Escapes, joiners, directions, tags.
  ...["\\u0000", "\\ud834\\udd1e", '\\/\\"\\\\[{', "\u200b\ufeff\u202e\u2066\u{e0041}"].map((given) =>
    inText(accepted, given)
  )
]

// Framing

/** What the server waits for, or reads as something else, depends on the bytes; the answer may be none. */
const frame = (
  name: string,
  outcome: Outcome,
  changed: (message: Message, body: Buffer, facts: Facts) => Partial<Message>
) =>
  input(name, ["line", "framing", "size of the head", "host", "extra"], outcome, (message, facts) => {
    const { body, framing, method } = message
    if (body === undefined || body.length === 0 || framing.kind !== "length" || method === "HEAD")
      return undefined
    return { last: true, ...changed(message, body, facts) }
  })

const perhaps = open("transport")
/** What could be refused before the body is read. */
const beforeBody = ["text", "X-Forwarded-For", ...Object.keys(documented)]
const raw = (lines: ReadonlyArray<string>, bytes: Buffer) => ({
  framing: { kind: "raw", lines, bytes } as const
})
/** Where the body ends differently for two readers, this is a request for one of them. It must never be answered. */
const hidden = Buffer.from("GET /api/v1/version HTTP/1.1\r\nHost: a\r\n\r\n")
const oneChunk = (body: Buffer, size = body.length.toString(16)): Buffer =>
  Buffer.concat([Buffer.from(`${size}${crlf}`), body, Buffer.from(`${crlf}0${crlf}${crlf}`)])
const chunkedLine = ["Transfer-Encoding: chunked"]
const cut = (bytes: Buffer, place: number) => bytes.subarray(0, Math.floor(place * bytes.length))

const length = "Content-Length: $length"
const afterLength = (second: string) => `${length}\r\n${second}`
/** Heads with no or with two framings. With either reading alone, a request hides behind the body. */
const badFramings = [
  ...["-1", "5, 5", "", "99999999999999999999", latin1("٥")].map((value) => `Content-Length: ${value}`),
  ...["gzip", "chunked, gzip", "xchunked", "chunked, chunked", "\0chunked"].map(
    (coding) => `Transfer-Encoding: ${coding}`
  ),
  `${chunkedLine}\r\n${length}`,
  ...[length, "Content-Length: 1", ...chunkedLine, "TRANSFER-ENCODING: CHUNKED"].map(afterLength),
  ...["Transfer-Encoding : chunked", "Transfer-Encoding:\r\n chunked"].map(afterLength),
  ...["Transfer-Encoding: identity, chunked", `X: a\r${chunkedLine}`, `X: a\n${chunkedLine}`].map(afterLength)
]

const badLines = ["X-Nul: a\0$word", "X-Return: a\r$word", "No-Colon", "X-Space : x", " X-Folded: start"]

const inChunks = (extension: string, trailer: string) =>
  ({ framing: { kind: "chunked", extension, trailer } }) as const

export const frameInputs: ReadonlyArray<Input> = [
  {
    ...frame("chunks with an extension and a trailer", accepted, () => ({
      ...inChunks(";a=b", "Idempotency-Key: trailer-trailer-trailer\r\n"),
      last: false
    })),
    parts: ["line", "framing"]
  },
  frame("chunks with long extensions", perhaps, () => inChunks(`;${"x".repeat(20_000)}`, "")),
  frame("many trailers", perhaps, () => inChunks("", "a: b\r\n".repeat(8_000))),
  frame("a body cut short, then the end", perhaps, (_, body, { place }) => ({
    ...raw([`Content-Length: ${body.length}`], cut(body, place)),
    halfClose: true
  })),
  frame("a chunk cut short, then the end", perhaps, (_, body, { place }) => ({
    ...raw(chunkedLine, cut(oneChunk(body), place)),
    halfClose: true
  })),
  frame("a length that is too short", perhaps, (_, body, { place }) =>
    raw([`Content-Length: ${cut(body, place).length}`], body)
  ),
  ...badFramings.map((lines) =>
    frame(`the framing ${JSON.stringify(lines)}`, malformedHead, (_, body) => {
      const bytes = oneChunk(body)
      return raw(lines.replaceAll("$length", `${bytes.length}`).split(crlf), Buffer.concat([bytes, hidden]))
    })
  ),
  ...["g", "-5", "", "ffffffffffffffffff", "5 "].map((size) => {
    const framed = frame(`a chunk of the size ${JSON.stringify(size)}`, malformedHead, (_, body) =>
      raw(chunkedLine, Buffer.concat([oneChunk(body, size), hidden]))
    )
    return { ...framed, parts: [...framed.parts, ...beforeBody] }
  }),
  ...badLines.map((given) =>
    frame(`the line ${JSON.stringify(given)}`, malformedHead, (message, _, facts) => ({
      lines: [...message.lines, given.replace("$word", word(facts))]
    }))
  ),
  frame("empty lines before", accepted, (message) => ({
    verbatim: Buffer.concat([Buffer.from("\r\n\r\n"), writeMessage(message)])
  })),
  frame("a byte of the request changed", perhaps, (message, _, { place }) => {
    const bytes = Buffer.from(writeMessage(message))
    const at = Math.floor(place * bytes.length)
    bytes[at] = Math.floor(place * 1e6) % 256
    return { verbatim: bytes, halfClose: true }
  })
]

export const headInputs: ReadonlyArray<Input> = [...headerInputs, ...otherHeaders]

// Values of the body

/** One member of a valid body in another form. What fits the schema, and what does not, is in test/schema/Requests.test.ts. */
export interface BodyCase {
  readonly name: string
  /** The operation id. */
  readonly call: string
  readonly member: string
  readonly value: (facts: Facts) => unknown
  readonly outcome: Outcome
}

const own = ({ word: make }: Facts): string => make("body")
const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1) })

const ofUse = (status: number, code: string) => refused("use case", status, code)
const badToken = ofUse(401, "unauthenticated")
const badSlt = ofUse(401, "slt_rejected")
const unknownType = ofUse(404, "not_found")
const badValue = ofUse(400, "invalid_input")
const otherRepository = refused("pull request", 400, "invalid_input")

/** The call, the member, its name, a value, the outcome. */
type Row = readonly [call: string, member: string, value: Value | object, outcome: Outcome]

const rows: ReadonlyArray<Row> = [
  ["tings.send", "type", "music.trigger.fired ", unknownType],
  ["tings.send", "key", (facts) => `si:somebody/${own(facts)}`, badValue],
  ["tings.send", "key", ({ actor }) => actor, badValue],
  ["tings.send", "key", (facts) => `${facts.actor}/${own(facts)}`.padEnd(200, "k"), accepted],
  ["tings.send", "key", (facts) => `${facts.actor}/${own(facts)}`.padEnd(201, "k"), badShape],
  ["tings.send", "data", { text: "x".repeat(260_000) }, accepted],
  ["telemetry.accept", "table", "__proto__", badValue],
  ["telemetry.accept", "table", "musicclidaemon ", badValue],
  ["reports.submit", "pr", "https://github.com/other/music/pull/1", otherRepository],
  ["reports.submit", "message", "\u3000\n 123456789 \t", badShape],
  ["reports.submit", "message", (facts) => own(facts) + "𝄞".repeat(15_000), accepted],
  ["reports.submit", "message", (facts) => own(facts).padEnd(40_001, "x"), badShape],
  ["auth.login", "slt", (facts) => `oac_${filled(43, own(facts))}`, badSlt],
  ["auth.refresh", "refresh_token", (facts) => `ort_${filled(43, own(facts))}`, badToken],
  ["auth.refresh", "refresh_token", ({ access }) => access, badToken],
  ["auth.refresh", "refresh_token", "", badToken],
  ["auth.logout", "token", "", accepted],
  ["auth.logout", "token", (facts) => `oat_${filled(43, own(facts))}`, accepted],
  ...(
    [
      ["reports.submit", "context", 63],
      ["tings.send", "data", 63],
      ["telemetry.accept", "events", 62]
    ] as const
  ).flatMap(([call, member, most]) =>
    [most, most + 1].map((levels): Row => {
      const value = member === "events" ? [nested(levels)] : (nested(levels) as object)
      return [call, member, value, levels === most ? accepted : deepJson]
    })
  )
]

export const bodyCases: ReadonlyArray<BodyCase> = rows.map(([call, member, given, outcome], at) => ({
  name: `${member}: value ${at}`,
  call,
  member,
  value: (facts) => (typeof given === "function" ? given(facts) : given),
  outcome
}))
