/** Output of terminals and programs that people paste into reports: no credential in it is filed, and the log around it is. */
import { describe, expect, it } from "vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import { randomRootKey, randomToken } from "../../sandbox/upstreams/iam/Model.ts"
import { composeIssue } from "../../src/services/text/IssueDraft.ts"
import { redactReport } from "../../src/services/text/Redaction.ts"
import { Anonymous, type ReportContent, type StoredReport } from "../../src/services/Store.ts"
import { sampleReport } from "../layers/store/Samples.ts"
import { from as letters } from "./text/HostileText.ts"
import { betrays } from "./text/IssueReader.ts"

const base64 = (text: string) => Buffer.from(text).toString("base64")
const halves = (secret: string, between: string) => secret.slice(0, 4) + between + secret.slice(4)
const first = (secret: string, write: (code: string) => string) =>
  write((secret.codePointAt(0) ?? 0).toString(16).padStart(2, "0")) + secret.slice(1)
const red = "\u001b[01;31m\u001b[K"
const reset = "\u001b[m\u001b[K"

/** Around a token that is recognised by itself. */
const ofTokens: Readonly<Record<string, (token: string) => string>> = {
  nothing: (token) => `got ${token}, trying again`,
  "grep --color, of the prefix": (token) => `app.log:${red}${token.slice(0, 4)}${reset}${token.slice(4)}`,
  "grep --color, of all": (token) => `app.log:${red}${token}${reset}`,
  "grep --color, of each character": (token) => [...token].map((one) => red + one + reset).join(""),
  "256 colours": (token) => halves(token, "\u001b[38;5;196m"),
  "true colours": (token) => halves(token, "\u001b[38;2;255;0;0m"),
  "a moved cursor": (token) => halves(token, "\u001b[0G"),
  "a sequence with a space, of the cursor's shape": (token) => halves(token, "\u001b[1 q"),
  "a sequence with a mark, of a reset": (token) => halves(token, "\u001b[!p"),
  tput: (token) => halves(token, "\u001b(B\u001b[m"),
  "colours without the escape character": (token) => `[01;31m[K${token.slice(0, 4)}[m[K${token.slice(4)}`,
  "cat -v": (token) => halves(token, "^[[01;31m^[[K"),
  "cat -v, of a moved cursor": (token) => halves(token, "^[[0G"),
  "an escape character by its letter": (token) => halves(token, "\\e[31m"),
  "an octal escape character": (token) => halves(token, "\\033[31m"),
  "an escape character in hexadecimal": (token) => halves(token, "\\x1b[31m"),
  "an escape character in JSON": (token) => halves(token, "\\u001b[31m"),
  "a link's end": (token) => halves(token, "\u001b]8;;\u001b\\"),
  "a link": (token) => `\u001b]8;;https://example.test/?t=${token}\u001b\\here\u001b]8;;\u001b\\`,
  "a window's title": (token) => `\u001b]0;${token}\u0007$ make`,
  "a written window's title": (token) => `\\u001b]0;${first(token, (code) => `%${code}`)}\\u0007$ make`,
  "\\U": (token) => first(token, (code) => `\\U000000${code}`),
  "\\u": (token) => first(token, (code) => `\\u00${code}`),
  "\\u{}": (token) => first(token, (code) => `\\u{${code}}`),
  "\\x": (token) => first(token, (code) => `\\x${code}`),
  "\\x{}": (token) => first(token, (code) => `\\x{${code}}`),
  "bytes of UTF-8": (token) => `b'${halves(token, "\\xe2\\x80\\x8b")}'`,
  "percent codes": (token) => first(token, (code) => `%${code}`),
  references: (token) => first(token, (code) => `&#x${code};`),
  JSON: (token) => JSON.stringify({ token }),
  "JSON in JSON": (token) => JSON.stringify(JSON.stringify({ token: JSON.stringify({ token }) })),
  bytes: (token) => `(b'token', b'${token}')`,
  "a shell": (token) => `export TOKEN='${token}'`
}

/** Around a header's name and its value. */
const ofHeaders: Readonly<Record<string, (name: string, value: string) => string>> = {
  line: (name, value) => `> ${name}: ${value}`,
  curl: (name, value) => `curl -sS -H '${name}: ${value}' https://example.test/`,
  assignment: (name, value) => `${name}=${value}`,
  bytes: (name, value) => `(b'${name}', b'${value}')`,
  attributes: (name, value) => `<header name="${name}" value="${value}"/>`,
  elements: (name, value) => `<name>${name}</name><value>${value}</value>`,
  cells: (name, value) => `<tr><td>${name}</td> <td>${value}</td></tr>`,
  table: (name, value) => `| ${name} | ${value} |`,
  "name and value": (name, value) => JSON.stringify({ name, value }),
  "Name and Value": (name, value) => JSON.stringify({ Name: name, Value: value }),
  "NAME and VALUE": (name, value) => JSON.stringify({ NAME: name, VALUE: value }, undefined, 1),
  "k and v": (name, value) => JSON.stringify({ k: name, v: value }),
  "key and values": (name, value) => JSON.stringify({ key: name, values: [value] }),
  "header and content": (name, value) => JSON.stringify({ header: name, content: value }),
  "a member": (name, value) => JSON.stringify({ headers: { [name]: value } }),
  "a member with its value": (name, value) => JSON.stringify({ [name]: { value } }),
  "a list": (name, value) => JSON.stringify([name, value]),
  "a member in JSON": (name, value) => JSON.stringify(JSON.stringify({ [name]: { value } })),
  Python: (name, value) => `{'${name}': '${value}'}`,
  Ruby: (name, value) => `{"${name}"=>"${value}"}`,
  "PHP, printed": (name, value) => `    [${name}] => ${value}`,
  "PHP, dumped": (name, value) => `  ["${name}"]=> string(${value.length}) "${value}"`,
  Go: (name, value) => `map[Accept:[*/*] ${name}:[${value}]]`,
  YAML: (name, value) => `{name: ${name}, value: ${value}}`
}
const authorization =
  "Authorization AUTHORIZATION authorization HTTP_AUTHORIZATION Proxy-Authorization AUTHOR\u0130ZAT\u0130ON author\u0131zat\u0131on".split(
    " "
  )
const keyNames = "X-Testing-Environment-Key HTTP_X_TESTING_ENVIRONMENT_KEY iam_test_key testing_key".split(
  " "
)

/** A line that holds a credential, and the part of it that must not be readable. */
interface Pasted {
  readonly how: string
  readonly line: string
  readonly secret: string
}

const drawn = (make: () => string) => FastCheck.constant(undefined).map(make)
const token = FastCheck.oneof(
  ...(["oat", "ort", "oac", "obo", "ask", "whs"] as const).map((prefix) => drawn(() => randomToken(prefix))),
  letters("0123456789abcdef", 32).map((key) => `table-musicclidaemon-${key}`),
  letters("0123456789abcdef", 82).map((key) => `github_pat_${key}`)
)
const basic = token.map((secret) => base64(`music:${secret}`))

const headerValue = FastCheck.oneof(
  token.map((secret) => ({ value: `Bearer ${secret}`, secret, names: authorization })),
  basic.map((secret) => ({ value: `Basic ${secret}`, secret, names: authorization })),
  token.map((secret) => ({ value: secret, secret, names: [...authorization, ...keyNames] })),
  drawn(randomRootKey).map((secret) => ({ value: secret, secret, names: keyNames }))
)
const one = <A>(all: Readonly<Record<string, A>>) => FastCheck.constantFrom(...Object.entries(all))
const pasted: FastCheck.Arbitrary<Pasted> = FastCheck.oneof(
  FastCheck.record({ wrapping: one(ofTokens), secret: token }).map(({ secret, wrapping: [how, write] }) => ({
    how,
    line: write(secret),
    // Its prefix says nothing, and may stand apart.
    secret: secret.slice(4)
  })),
  FastCheck.record({ wrapping: one(ofHeaders), given: headerValue, at: FastCheck.nat(20) }).map(
    ({ at, given: { names, secret, value }, wrapping: [how, write] }) => ({
      how: `${how}, ${names[at % names.length]}`,
      line: write(names[at % names.length] ?? "", value),
      secret
    })
  ),
  basic.map((secret) => ({ how: "nothing", line: `sent Basic ${secret} to the service`, secret })),
  token
    .map((password) => base64(`:${password}`))
    .map((secret) => ({ how: "no user", line: `sent Basic ${secret}`, secret }))
)

/** Lines of a log that hold no credential, though words of some. */
const logLine = FastCheck.tuple(
  FastCheck.constantFrom(
    "INFO  request served",
    "WARN  Basic authentication failed for the user",
    "DEBUG authorization: failed, basic functionality only",
    "basic operations: 12, basic options: 3",
    "ERROR Bearer authentication is required",
    "\tat Object.handle (/srv/app/src/http2/authorization/handlers.ts:12:7)",
    '{"level":"info","type":"authorization","id":"550e8400-e29b-41d4-a716-446655440000"}',
    "[authorization] ok, status[0] = 200, array[m] and array[K]",
    "C:\\new\\table\\x64\\update\\release\\notes",
    "100%25 done & more \u2013 caf\u00e9 \u6f22\u5b57",
    "sync_error, concat_all_the_strings_of_a_list, ask_me",
    "name: authorization, value: denied"
  ),
  FastCheck.nat(99_999)
).map(([text, at]) => `${at} ${text}`)
const log = FastCheck.array(logLine, { minLength: 1, maxLength: 4 })

const reportOf = (content: Partial<ReportContent>): StoredReport => {
  const whole = { message: "See below.", pr: null, attachments: [], context: null, ...content }
  return { ...sampleReport({ reporter: Anonymous(), content: redactReport(whole) }), issue: Option.none() }
}
const publish = (content: Partial<ReportContent>): string => {
  const { body, title } = composeIssue(reportOf(content))
  return `${title}\n${body}`
}
/** What is pasted may be a part of the context, too. */
const parse = (line: string): unknown =>
  Either.getOrElse(
    Either.try((): unknown => JSON.parse(line)),
    () => line
  )

const shown = randomToken("oat")
/** Each wrapping once; the rest is drawn. */
const everyWrapping: ReadonlyArray<Pasted> = [
  ...Object.entries(ofTokens).map(([how, write]) => ({ how, line: write(shown), secret: shown.slice(4) })),
  ...Object.entries(ofHeaders).map(([how, write]) => ({
    how,
    line: write("Authorization", `Bearer ${shown}`),
    secret: shown
  }))
]

describe("Pasted output", () => {
  it("publishes no credential in any wrapping, and all of the log around it", () => {
    FastCheck.assert(
      FastCheck.property(pasted, log, log, ({ how, line, secret }, before, after) => {
        const text = [...before, line, ...after].join("\n")
        for (const issue of [
          publish({ message: `What I saw:\n${text}\nThat is all.` }),
          publish({ attachments: [{ name: "out.log", content: `\n${text}\n` }] })
        ]) {
          expect(betrays(issue, secret), `${how}: ${JSON.stringify(line)}`).toBe(false)
          for (const around of [...before, ...after]) expect(issue, how).toContain(`\n${around}\n`)
        }
        const content = reportOf({ context: { pasted: parse(line) } }).content
        expect(betrays(JSON.stringify(content), secret), `stored, ${how}: ${line}`).toBe(false)
        expect(betrays(publish(content), secret), `context, ${how}: ${line}`).toBe(false)
      }),
      { numRuns: 500, examples: everyWrapping.map((one) => [one, ["1 ok"], ["2 ok"]]) }
    )
  })

  it("is published without a coloured token, and with all other lines of 20 KB", () => {
    const lines = FastCheck.sample(logLine, { numRuns: 700, seed: 2 })
    const secret = randomToken("oat")
    const coloured = `app.log:${red}${secret.slice(0, 8)}${reset}${secret.slice(8)}`
    const half = (some: ReadonlyArray<string>) => some.join("\n").slice(0, 9_800)
    const message = [half(lines.slice(0, 350)), coloured, half(lines.slice(350))].join("\n")
    expect(publish({ message })).toContain(message.replace(coloured, "app.log:[redacted]"))
  })
})
