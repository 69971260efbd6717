import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { compare } from "../../scripts/compat/compare.ts"
import { openApi } from "../../src/http/openapi/OpenApiDocument.ts"

type Json = Record<string, unknown>

/** A document of one call; what it says of it is laid over the usual. */
const documentOf = (operation: Json, components: Json = {}): Json => ({
  openapi: "3.1.0",
  paths: { "/x": { post: { operationId: "x", responses: {}, ...operation } } },
  components: { securitySchemes: { bearer: { type: "http", scheme: "bearer" } }, ...components }
})
const body = (schema: Json, rest: Json = { required: true }): Json => ({
  requestBody: { ...rest, content: { "application/json": { schema } } }
})
const answer = (schema: Json, status = "200"): Json => ({
  responses: { [status]: { content: { "application/json": { schema } } } }
})
const closed = (properties: Json, required: ReadonlyArray<string> = []): Json => ({
  type: "object",
  properties,
  required,
  additionalProperties: false
})
const open = (properties: Json, required: ReadonlyArray<string> = Object.keys(properties)): Json => ({
  type: "object",
  properties,
  required
})
const failure = (...codes: ReadonlyArray<string>): Json => ({
  anyOf: codes.map((code) => open({ error: open({ code: { type: "string", enum: [code] } }) }))
})
const header = (name: string, rest: Json = {}): Json => ({
  name,
  in: "header",
  schema: { type: "string" },
  ...rest
})

const lines = (before: Json, after: Json): ReadonlyArray<string> =>
  compare(before, after).map(({ level, where, what }) => `${level}: ${where}: ${what}`)

const text = { type: "string" }
const number = { type: "number" }
const integer = { type: "integer" }
const nullable = (schema: Json): Json => ({ anyOf: [schema, { type: "null" }] })

type Case = readonly [rule: string, before: Json, after: Json, finding: string]
const requestCase = (rule: string, before: Json, after: Json, finding: string): Case => [
  rule,
  documentOf(body(before)),
  documentOf(body(after)),
  finding
]
const answerCase = (rule: string, before: Json, after: Json, finding: string): Case => [
  rule,
  documentOf(answer(before)),
  documentOf(answer(after)),
  finding
]

const breaking: ReadonlyArray<Case> = [
  ["a path that went", documentOf({}), { paths: {} }, "POST /x: is no longer there"],
  ["a method that went", documentOf({}), { paths: { "/x": { get: {} } } }, "POST /x: is no longer there"],
  [
    "a new required header",
    documentOf({}),
    documentOf({ parameters: [header("X-New", { required: true })] }),
    "POST /x X-New: is new and required"
  ],
  [
    "an optional header that became required, in whatever case",
    documentOf({ parameters: [header("x-old")] }),
    documentOf({ parameters: [header("X-Old", { required: true })] }),
    "POST /x X-Old: is required now"
  ],
  [
    "a header with a narrower form",
    documentOf({ parameters: [header("X-Key")] }),
    documentOf({ parameters: [header("X-Key", { schema: { type: "string", maxLength: 3 } })] }),
    "POST /x X-Key: maxLength changed from none to 3"
  ],
  ["a body that became required", documentOf({}), documentOf(body(text)), "POST /x body: is required now"],
  [
    "a body that is no longer taken",
    documentOf(body(text)),
    documentOf({}),
    "POST /x body: is no longer taken"
  ],
  [
    "a smaller body",
    documentOf(body(text, { required: true, "x-max-bytes": 100 })),
    documentOf(body(text, { required: true, "x-max-bytes": 99 })),
    "POST /x body: may have 99 bytes, no longer 100"
  ],
  requestCase(
    "a new required field",
    closed({}),
    closed({ a: text }, ["a"]),
    "POST /x body.a: is new and required"
  ),
  requestCase(
    "a field that became required",
    closed({ a: text }),
    closed({ a: text }, ["a"]),
    "POST /x body.a: is required now"
  ),
  requestCase(
    "a field that is refused now",
    closed({ a: text }),
    closed({}),
    "POST /x body.a: is no longer taken"
  ),
  requestCase(
    "a field of another type",
    closed({ a: number }),
    closed({ a: text }),
    "POST /x body.a: type changed from number to string"
  ),
  requestCase("a narrower type", number, integer, "POST /x body: type changed from number to integer"),
  requestCase(
    "a value that is no longer taken",
    { type: "string", enum: ["a", "b"] },
    { type: "string", enum: ["a"] },
    'POST /x body: no longer takes "b"'
  ),
  requestCase(
    "a list of values where any was taken",
    text,
    { type: "string", enum: ["a"] },
    'POST /x body: takes only "a" now'
  ),
  requestCase(
    "a higher lower bound, deep inside",
    closed({ a: { type: "array", items: closed({ b: { type: "string", minLength: 1 } }) } }),
    closed({ a: { type: "array", items: closed({ b: { type: "string", minLength: 2 } }) } }),
    "POST /x body.a[].b: minLength changed from 1 to 2"
  ),
  requestCase(
    "a lower upper bound",
    { maximum: 9 },
    { maximum: 8 },
    "POST /x body: maximum changed from 9 to 8"
  ),
  requestCase(
    "another pattern",
    { pattern: "a" },
    { pattern: "b" },
    'POST /x body: pattern changed from "a" to "b"'
  ),
  requestCase(
    "a form that had none",
    text,
    { type: "string", format: "uuid" },
    'POST /x body: format changed from none to "uuid"'
  ),
  requestCase(
    "null that is no longer taken",
    nullable(text),
    text,
    'POST /x body: no longer takes the form ["null"]'
  ),
  requestCase(
    "other fields that are refused now",
    open({}),
    closed({}),
    "POST /x body: refuses fields that it does not know now"
  ),
  requestCase(
    "a map whose values must be of another type",
    { type: "object", additionalProperties: text },
    { type: "object", additionalProperties: number },
    "POST /x body.*: type changed from string to number"
  ),
  requestCase(
    "what this check cannot judge",
    text,
    { type: "string", not: { const: "a" } },
    "POST /x body: not changed: this check cannot judge it"
  ),
  answerCase("a field that went", open({ a: text }), open({}), "POST /x 200.a: is no longer given"),
  answerCase("a renamed field", open({ a: text }), open({ b: text }), "POST /x 200.a: is no longer given"),
  answerCase(
    "a field that may be missing",
    open({ a: text }),
    open({ a: text }, []),
    "POST /x 200.a: may be missing now"
  ),
  answerCase(
    "a field of another type",
    open({ a: text }),
    open({ a: number }),
    "POST /x 200.a: type changed from string to number"
  ),
  answerCase("a wider type", integer, number, "POST /x 200: type changed from integer to number"),
  answerCase(
    "null where there was none",
    text,
    nullable(text),
    'POST /x 200: may have the new form ["null"]'
  ),
  answerCase(
    "a form that went",
    { type: "string", format: "date-time" },
    text,
    'POST /x 200: format changed from "date-time" to none'
  ),
  answerCase(
    "items of another type",
    { type: "array", items: text },
    { type: "array", items: number },
    "POST /x 200[]: type changed from string to number"
  ),
  answerCase(
    "a field deep inside",
    open({ a: { type: "array", items: open({ b: text }) } }),
    open({ a: { type: "array", items: open({}) } }),
    "POST /x 200.a[].b: is no longer given"
  ),
  ["a status that went", documentOf(answer(text)), documentOf({}), "POST /x 200: is no longer answered"],
  [
    "an error code that went",
    documentOf(answer(failure("a", "b"), "400")),
    documentOf(answer(failure("a"), "400")),
    "POST /x 400: no longer says b"
  ],
  [
    "a header of the answer that went",
    documentOf({ responses: { 200: { headers: { "X-A": { schema: text } } } } }),
    documentOf({ responses: { 200: {} } }),
    "POST /x 200 X-A: is no longer given"
  ],
  [
    "another media type",
    documentOf({ responses: { 200: { content: { "application/json": {} } } } }),
    documentOf({ responses: { 200: { content: { "text/plain": {} } } } }),
    "POST /x 200: is no longer given as application/json"
  ],
  [
    "a credential where none was asked for",
    documentOf({ security: [] }),
    documentOf({ security: [{ bearer: [] }] }),
    "POST /x security: who was let in before may be refused now"
  ],
  [
    "a credential that became necessary",
    documentOf({ security: [{ bearer: [] }, {}] }),
    documentOf({ security: [{ bearer: [] }] }),
    "POST /x security: who was let in before may be refused now"
  ],
  [
    "a credential of another kind under the same name",
    documentOf({ security: [{ bearer: [] }] }),
    documentOf(
      { security: [{ bearer: [] }] },
      { securitySchemes: { bearer: { type: "http", scheme: "basic" } } }
    ),
    "POST /x security: who was let in before may be refused now"
  ]
]

const harmless: ReadonlyArray<readonly [rule: string, before: Json, after: Json]> = [
  ["a new path", { paths: {} }, documentOf({})],
  ["a new optional header", documentOf({}), documentOf({ parameters: [header("X-New")] })],
  ["a new optional field", documentOf(body(closed({}))), documentOf(body(closed({ a: text })))],
  [
    "a field that became optional",
    documentOf(body(closed({ a: text }, ["a"]))),
    documentOf(body(closed({ a: text })))
  ],
  ["a wider type of a request", documentOf(body(integer)), documentOf(body(number))],
  ["null, taken beside text", documentOf(body(text)), documentOf(body(nullable(text)))],
  ["more values", documentOf(body({ enum: ["a"] })), documentOf(body({ enum: ["a", "b"] }))],
  ["wider bounds", documentOf(body({ maxLength: 1, minLength: 1 })), documentOf(body({ maxLength: 2 }))],
  ["a pattern that went", documentOf(body({ pattern: "a" })), documentOf(body({}))],
  [
    "a larger body",
    documentOf(body(text, { "x-max-bytes": 1 })),
    documentOf(body(text, { "x-max-bytes": 2 }))
  ],
  ["a new field of an answer", documentOf(answer(open({}))), documentOf(answer(open({ a: text })))],
  [
    "a field of an answer that is never missing now",
    documentOf(answer(open({ a: text }, []))),
    documentOf(answer(open({ a: text })))
  ],
  ["an answer that is never null now", documentOf(answer(nullable(text))), documentOf(answer(text))],
  ["a narrower type of an answer", documentOf(answer(number)), documentOf(answer(integer))],
  [
    "an optional credential",
    documentOf({ security: [{ bearer: [] }] }),
    documentOf({ security: [{ bearer: [] }, {}] })
  ],
  [
    "other words",
    documentOf({ summary: "a", ...body({ description: "a" }) }),
    documentOf({ summary: "b", ...body({ description: "b" }) })
  ],
  [
    "the same schema by a reference",
    documentOf(answer(open({ a: text }))),
    documentOf(answer({ $ref: "#/components/schemas/A" }), { schemas: { A: open({ a: text }) } })
  ]
]

describe("A change that breaks clients is found", () => {
  it.each(breaking)("%s", (_, before, after, finding) => {
    expect(lines(before, after)).toEqual([`break: ${finding}`])
  })

  it("in a schema that refers to itself, once", () => {
    const tree = (schema: Json): Json =>
      documentOf(answer({ $ref: "#/components/schemas/Tree" }), {
        schemas: {
          Tree: open({
            name: schema,
            children: { type: "array", items: { $ref: "#/components/schemas/Tree" } }
          })
        }
      })
    expect(lines(tree(text), tree(number))).toEqual([
      "break: POST /x 200.name: type changed from string to number"
    ])
  })
})

describe("A change that clients do not notice is no finding", () => {
  it.each(harmless)("%s", (_, before, after) => {
    expect(lines(before, after)).toEqual([])
  })
})

describe("A change that a client may trip over is a warning", () => {
  it.each<Case>([
    answerCase(
      "a new value of an answer",
      { enum: ["a"] },
      { enum: ["a", "b"] },
      'POST /x 200: may be "b" now'
    ),
    answerCase(
      "any value where there was a list",
      { enum: ["a"] },
      {},
      "POST /x 200: may be any value now, no longer one of a list"
    ),
    answerCase(
      "a longer text",
      { maxLength: 1 },
      { maxLength: 2 },
      "POST /x 200: maxLength changed from 1 to 2"
    ),
    [
      "a new error code",
      documentOf(answer(failure("a"), "400")),
      documentOf(answer(failure("a", "b"), "400")),
      "POST /x 400: may say b now"
    ],
    ["a new status", documentOf({}), documentOf(answer(text)), "POST /x 200: is a new answer"],
    [
      "a header that is no longer read",
      documentOf({ parameters: [header("X-A")] }),
      documentOf({}),
      "POST /x X-A: is no longer read"
    ],
    [
      "another operation id",
      documentOf({}),
      documentOf({ operationId: "y" }),
      "POST /x: operationId changed from x to y"
    ]
  ])("%s", (_, before, after, finding) => {
    expect(lines(before, after)).toEqual([`warning: ${finding}`])
  })
})

describe("On this service's own document", () => {
  const text = JSON.stringify(openApi())
  const fresh = (): Json => JSON.parse(text) as Json
  /** The member at a path, whose last part is then changed. */
  const at = (document: Json, ...path: ReadonlyArray<string>): Json =>
    path.reduce<Json>((found, part) => found[part] as Json, document)
  const changed = (change: (document: Json) => void): ReadonlyArray<string> => {
    const document = fresh()
    change(document)
    return lines(fresh(), document)
  }

  it("nothing is found where nothing changed", () => {
    expect(lines(fresh(), fresh())).toEqual([])
  })

  it("each kind of break is found by the place it stands at", () => {
    const found = [
      changed((document) => delete at(document, "paths")["/api/v1/tings"]),
      changed(
        (document) =>
          (at(document, "components", "schemas", "LoginRequest", "properties", "slt").maxLength = 10)
      ),
      changed((document) => {
        at(document, "components", "schemas", "ReportRequest").required = ["message", "context"]
      }),
      changed((document) => delete at(document, "components", "schemas", "Session", "properties").scope),
      changed((document) => {
        at(document, "components", "schemas", "Actor", "properties", "type").type = "integer"
      }),
      changed((document) => {
        at(document, "paths", "/api/v1/auth/logout", "post", "requestBody")["x-max-bytes"] = 1
      }),
      changed((document) => delete at(document, "paths", "/api/v1/auth/me", "get", "responses")["403"]),
      changed((document) => {
        at(document, "paths", "/api/v1/reports", "post").security = [{ bearer: [] }]
      })
    ].map(([first]) => first)
    expect(found).toEqual([
      "break: POST /api/v1/tings: is no longer there",
      "break: POST /api/v1/auth/login body.slt: maxLength changed from none to 10",
      "break: POST /api/v1/reports body.context: is required now",
      "break: POST /api/v1/auth/refresh 200.scope: is no longer given",
      "break: POST /api/v1/auth/login 200.actor.type: type changed from string to integer",
      "break: POST /api/v1/auth/logout body: may have 1 bytes, no longer 16384",
      "break: GET /api/v1/auth/me 403: is no longer answered",
      "break: POST /api/v1/reports security: who was let in before may be refused now"
    ])
  })

  it("the clients of the last release are not broken", () => {
    const released = new URL("../../docs/openapi.released.json", import.meta.url)
    const found = compare(JSON.parse(readFileSync(released, "utf8")), openApi())
    expect(found.filter(({ level }) => level === "break")).toEqual([])
  })

  it("the command exits with 1 and a line a break, and with 0 without one", () => {
    const folder = mkdtempSync(join(tmpdir(), "music-compat-"))
    const run = (...files: ReadonlyArray<string>): readonly [number, string] => {
      const command = [
        "--import",
        "tsx",
        "scripts/openapi-compat.ts",
        ...files.map((file) => join(folder, file))
      ]
      try {
        return [0, execFileSync(process.execPath, command, { encoding: "utf8" })]
      } catch (problem) {
        const { status, stdout } = problem as { readonly status: number; readonly stdout: string }
        return [status, stdout]
      }
    }
    try {
      writeFileSync(join(folder, "old.json"), text)
      writeFileSync(join(folder, "new.json"), text.replaceAll('"/api/v1/iam"', '"/api/v2/iam"'))
      expect(run("old.json", "old.json")).toEqual([0, "no break\n"])
      expect(run("old.json", "new.json")).toEqual([
        1,
        "break: GET /api/v1/iam: is no longer there\n1 break\n"
      ])
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
