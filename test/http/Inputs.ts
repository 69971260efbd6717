/** What a request may look like, and what becomes of it: the refusals in the order of api.md ("Order of checks"), then what is accepted. */
import { bodyLimits } from "../../src/schema/BodyLimits.ts"
import { type CallName, type Change, idempotencyKey, withBody, withHeaders } from "./support.ts"

/** Stands where a credential or a text of the user may be misplaced. No answer and no log line may contain it. */
export const canary = "CANARYcanaryCANARYcanaryCANARYcanaryCANARYc"

export interface Input {
  readonly name: string
  readonly call: CallName
  readonly change: Change
}

export interface Refused extends Input {
  readonly status: number
  readonly code: string
  /** `details.fields`: paths and problems. */
  readonly fields: Readonly<Record<string, string>> | undefined
}

type Values = string | ReadonlyArray<string> | undefined
type Cases = Readonly<Record<string, Change>>

const refuse = (
  status: number,
  code: string,
  calls: ReadonlyArray<CallName>,
  cases: Cases,
  fields?: Refused["fields"]
): ReadonlyArray<Refused> =>
  calls.flatMap((call) =>
    Object.entries(cases).map(([name, change]) => ({ name, call, change, status, code, fields }))
  )

/** The same change for several values of a header. */
const header = (name: string, values: ReadonlyArray<Values>): Cases =>
  Object.fromEntries(
    values.map((value) => [`${name} ${JSON.stringify(value)?.slice(0, 60)}`, withHeaders({ [name]: value })])
  )

const bodies = (texts: ReadonlyArray<string>): Cases =>
  Object.fromEntries(texts.map((text) => [`body ${JSON.stringify(text).slice(0, 60)}`, withBody(text)]))

const value = (body: unknown): Change => withBody(JSON.stringify(body))

export const withKeys: ReadonlyArray<CallName> = ["login", "refresh", "logout", "submit"]
export const withBearer: ReadonlyArray<CallName> = ["me", "subscribe", "send"]
export const withPlane: ReadonlyArray<CallName> = ["iam", "accept", ...withKeys, ...withBearer]
/** Calls with a body, and its bound in bytes. */
export const bounds = {
  login: bodyLimits.small,
  refresh: bodyLimits.small,
  logout: bodyLimits.small,
  subscribe: bodyLimits.small,
  send: bodyLimits.ting,
  submit: bodyLimits.report,
  accept: bodyLimits.telemetry,
  receive: bodyLimits.webhook
} as const

const token = (length: number) => `oat_${"a".repeat(length)}`
const access = token(40)
const secret = `ask_${"t".repeat(43)}`
const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth)
const invalid = (cases: Cases, fields: Refused["fields"], call: CallName = "login") =>
  refuse(400, "invalid_input", [call], cases, fields)

const headers: ReadonlyArray<Refused> = [
  ...invalid(header("host", [["a", "b"]]), { Host: "must be sent exactly once" }, "version"),
  ...refuse(415, "unsupported_media_type", Object.keys(bounds) as ReadonlyArray<CallName>, {
    "text/plain": withHeaders({ "content-type": "text/plain" })
  }),
  ...refuse(415, "unsupported_media_type", ["login"], {
    ...header("content-type", [
      undefined,
      "",
      "text/json",
      "application/x-www-form-urlencoded",
      "application/problem+json",
      "application/jsonp",
      "xapplication/json",
      "application/json; charset=latin1",
      "application/json; charset=utf-8; x=y",
      "multipart/form-data; boundary=application/json",
      ["application/json", "text/plain"]
    ]),
    ...header("content-encoding", ["gzip", "identity, gzip"])
  }),
  ...Object.entries(bounds).flatMap(([call, bound]) =>
    refuse(413, "payload_too_large", [call as CallName], header("content-length", [String(bound + 1)]))
  ),
  ...refuse(400, "idempotency_key_required", withKeys, header("idempotency-key", [undefined])),
  ...refuse(
    400,
    "idempotency_key_invalid",
    ["login"],
    header("idempotency-key", [
      "",
      "x".repeat(15),
      "x".repeat(256),
      `${"x".repeat(16)} y`,
      `x${"\u00e9".repeat(20)}`,
      [idempotencyKey, idempotencyKey]
    ])
  ),
  ...refuse(400, "idempotency_key_invalid", withKeys, header("idempotency-key", ["short"])),
  ...refuse(401, "unauthenticated", withBearer, header("authorization", [undefined]), {
    Authorization: "missing"
  }),
  ...refuse(
    401,
    "unauthenticated",
    ["me"],
    header("authorization", ["", access, `bearer ${canary}`, `Zearer ${access}`, `Basic ${access}`]),
    { Authorization: "the scheme `Bearer`" }
  ),
  ...refuse(
    401,
    "unauthenticated",
    ["me", "submit"],
    header("authorization", [
      "Bearer",
      `Bearer  ${access}`,
      `Bearer ${access} x`,
      `Bearer ${access}, x`,
      `Bearer ort_${"a".repeat(40)}`,
      `Bearer xoat_${"a".repeat(40)}`,
      `Bearer ${token(27)}`,
      `Bearer ${token(8189)}`,
      `Bearer oat_${"a".repeat(30)}\u00e9`
    ]),
    { Authorization: "access token after the scheme" }
  ),
  ...refuse(
    401,
    "unauthenticated",
    ["me"],
    header("authorization", [
      [`Bearer ${access}`, `Bearer ${access}`],
      [`Bearer ${access}`, ""]
    ]),
    { Authorization: "exactly once" }
  ),
  ...withBearer.flatMap((call) =>
    invalid(header("x-org-id", [undefined]), { "X-Org-ID": "is required together with Authorization" }, call)
  ),
  ...invalid(
    header("x-org-id", ["", "ab", "a".repeat(51), canary, "ac me", "acme!", ["acme", "acme"], ["acme", ""]]),
    { "X-Org-ID": "must be 3 to 50 of a-z, 0-9, underscore and hyphen" },
    "me"
  ),
  // A bearer is optional for a report; one that is sent needs its organisation.
  ...invalid(
    { "a bearer alone": withHeaders({ authorization: `Bearer ${access}` }) },
    { "X-Org-ID": "is required together with Authorization" },
    "submit"
  ),
  ...refuse(401, "testing_secret_invalid", withPlane, header("x-testing-environment-key", ["", canary])),
  ...refuse(
    401,
    "testing_secret_invalid",
    ["iam"],
    header("x-testing-environment-key", [
      "ask_",
      secret.slice(0, -1),
      `${secret}a`,
      `x${secret}`,
      secret.toUpperCase(),
      `Bearer ${secret}`,
      `${secret}\u00e9`,
      [secret, secret],
      [secret, ""],
      ["", secret]
    ])
  )
]

const json: ReadonlyArray<Refused> = [
  ...withKeys.concat("send", "accept").flatMap((call) => invalid(bodies([""]), { body: "is empty" }, call)),
  ...invalid(
    bodies([
      "  ",
      '{"a":1',
      '{"a":"b',
      '"\\',
      "[1,]",
      "/**/1",
      "{}{}",
      "NaN",
      "{'a':1}",
      "\ufeff{}",
      "]]]]",
      `"${canary}`
    ]),
    { body: "is not valid JSON" }
  ),
  ...invalid(
    {
      "a lone continuation byte": withBody(Uint8Array.from([0x22, 0x80, 0x22])),
      "an overlong form": withBody(Uint8Array.from([0x22, 0xc0, 0xaf, 0x22])),
      "an encoded surrogate": withBody(Uint8Array.from([0x22, 0xed, 0xa0, 0x80, 0x22])),
      "a cut character": withBody(Uint8Array.from([0x22, 0xc3, 0x22])),
      "UTF-16": withBody(Uint8Array.from([0xff, 0xfe, 0x22, 0x00]))
    },
    { body: "is not valid UTF-8" }
  ),
  ...invalid(
    bodies([
      nested(65),
      `${'{"a":'.repeat(65)}1${"}".repeat(65)}`,
      `["\\"]",${nested(64)}]`,
      "[".repeat(500_000)
    ]),
    { body: "nests deeper than 64 levels" },
    "submit"
  ),
  ...invalid(bodies(['{"__proto__":1}', '{"a":[{"\\u005f_proto__":{}}]}', '{"__pr\\u006fto__":null}']), {
    body: "holds a __proto__ key"
  }),
  ...invalid(bodies(['"\\ud800"', '{"\\udfff":1}', '["\\udc00\\ud800"]', '{"a":"x\\uD83Dy"}']), {
    body: "holds a lone surrogate"
  }),
  ...invalid(bodies(["1e309", "-1e400", '{"a":[1e999]}', "9".repeat(400)]), {
    body: "holds a number that is too large"
  })
]

const message = "x".repeat(10)
const attachment = { name: "a", content: "b" }

/** Values that do not fit: the call, the body, the path of the problem, the problem. */
const misfits: ReadonlyArray<readonly [CallName, unknown, string, string]> = [
  ["login", {}, "slt", "is missing"],
  ["login", { slt: "a", for: canary }, "for", "is not a known field"],
  ["login", { slt: "a", [`oat_${"a1B2".repeat(10)}`]: 1 }, "(name not shown)", "is not a known field"],
  ["login", { slt: "a", "\u001b[31mred": 1 }, "(name not shown)", "is not a known field"],
  ["login", { slt: "a", ["x".repeat(64)]: 1 }, "x".repeat(64), "is not a known field"],
  ["login", { slt: "a", ["x".repeat(65)]: 1 }, "(name not shown)", "is not a known field"],
  ["login", { slt: `${canary} ` }, "slt", "must be 1 to 8192 visible ASCII characters"],
  ["login", { slt: [canary] }, "slt", "must be a string"],
  ["login", canary, "body", "must be an object"],
  ["login", [canary], "body", "must be an object"],
  ["refresh", { refresh_token: 7 }, "refresh_token", "must be a string"],
  ["refresh", { refresh_token: null }, "refresh_token", "must be a string"],
  ["logout", { token: [canary] }, "token", "must be a string"],
  ["subscribe", null, "body", "must be an object"],
  ["subscribe", [], "body", "must be an object"],
  ["subscribe", { more: 1 }, "more", "is not a known field"],
  ["send", { type: "a", key: "k", data: [] }, "data", "must be any JSON object"],
  ["send", { type: "", key: "k", data: {} }, "type", "must be 1 to 255 characters"],
  ["accept", { table: canary, events: [] }, "events", "must hold 1 to 40 events"],
  ["accept", { table: "t", events: canary }, "events", "must be an array"],
  ["accept", { table: "t", events: [{}, canary] }, "events.1", "must be an object"],
  ["submit", { message: [canary] }, "message", "must be a string"],
  ["submit", { message: `  ${"x".repeat(9)} ` }, "message", "must be 10 to 20,000 characters after trimming"],
  ["submit", { message, pr: canary }, "pr", "must be the https URL of a pull request"],
  ["submit", { message, context: canary }, "context", "must be an object"],
  [
    "submit",
    { message, attachments: Array(6).fill(attachment) },
    "attachments",
    "must be an array of at most 5 item(s)"
  ],
  [
    "submit",
    { message, attachments: [{ ...attachment, size: canary }] },
    "attachments.0.size",
    "is not a known field"
  ]
]

/** Each is refused before any use case and any call to another system. */
export const refusals: ReadonlyArray<Refused> = [
  ...headers,
  ...json,
  ...misfits.flatMap(([call, body, path, problem]) =>
    invalid({ [`body ${JSON.stringify(body).slice(0, 60)}`]: value(body) }, { [path]: problem }, call)
  ),
  ...invalid(
    { "every problem": value({ type: 1, for: "a", org_id: "b" }) },
    {
      for: "is not a known field",
      org_id: "is not a known field",
      type: "must be a string",
      key: "is missing",
      data: "is missing"
    },
    "send"
  )
]

const event = (text: string): Change => withBody(`{"table":"musicclidaemon","events":[{"a":${text}}]}`)

const accept = (call: CallName, cases: Cases): ReadonlyArray<Input> =>
  Object.entries(cases).map(([name, change]) => ({ name, call, change }))

/** Each reaches its use case, whatever that answers. */
export const accepted: ReadonlyArray<Input> = [
  ...accept("login", header("idempotency-key", ["x".repeat(16), `${"~!".repeat(120)}${"x".repeat(15)}`])),
  ...accept("send", header("idempotency-key", ["short"])),
  ...accept(
    "me",
    header(
      "authorization",
      [token(28), token(8188), `oat_${"a".repeat(30)}.~+/=%!`].map((one) => `Bearer ${one}`)
    )
  ),
  ...accept("me", header("x-org-id", ["abc", "a_-9".repeat(12), "a".repeat(50)])),
  ...accept("submit", header("x-org-id", ["Not An Organisation"])),
  ...accept(
    "accept",
    header("content-type", [
      "Application/JSON",
      "application/json;charset=utf-8",
      'application/json ; charset="UTF-8"',
      "application/json;"
    ])
  ),
  ...accept("accept", header("content-encoding", ["identity", "Identity"])),
  ...accept("accept", {
    "brackets and quotes inside strings": event('"[[{\\"\\\\"'),
    "an escaped pair of surrogates": event('"\\ud83d\\ude00"'),
    "__proto__ as a value": event('"__proto__"'),
    "numbers at the edge of a double": event("[1.7976931348623157e308,1e-999,9007199254740993]"),
    "white space": withBody(' {\n"table":\t"musicclidaemon",\r"events":[{}]} '),
    "64 levels": event(nested(61)),
    "64 levels, many times": event(`[${"[],".repeat(1_000)}[]]`)
  }),
  ...accept("subscribe", {
    "an empty body": withBody(""),
    "an empty body without a type": (sent) =>
      withHeaders({ "content-type": undefined })({ ...sent, body: "" })
  })
]
