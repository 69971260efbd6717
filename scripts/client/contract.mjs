// Makes client/Contract.ts: the types of the service's answers and requests and what the client checks of answers, by docs/openapi.json, and a
// sentence for each code of an error and each reason, by the tables of failures. The file is not committed: the type checker, the build of the
// client and the tests make it first.
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"

const root = fileURLToPath(new URL("../..", import.meta.url))

/** The tables, from their sources. */
const loadTables = async () => {
  const contents = `export { clientErrorTable, hintOf, reasonTable } from "./client/failures/ErrorTable.ts"
    export { failureTable } from "./src/schema/FailureTable.ts"`
  const stdin = { contents, resolveDir: root }
  const { outputFiles } = await build({
    stdin,
    bundle: true,
    write: false,
    format: "esm",
    logLevel: "warning"
  })
  return import(`data:text/javascript,${encodeURIComponent(outputFiles[0]?.text ?? "")}`)
}

const nameOf = (reference) => reference.split("/").at(-1)
const union = (texts) => texts.map((text) => JSON.stringify(text)).join(" | ")
const comment = (...sentences) => `/** ${sentences.join(" ").replaceAll("*/", "* /")} */\n`

/** The type of a schema. A text of an answer with known values may get others later; one of a request may not. */
const typeOf = (schema, isAnswer) => {
  if (schema.$ref !== undefined) {
    const name = nameOf(schema.$ref)
    return schemas[name].type === "object" ? name : typeOf(schemas[name], isAnswer)
  }
  if (schema.anyOf !== undefined) return schema.anyOf.map((one) => typeOf(one, isAnswer)).join(" | ")
  switch (schema.type) {
    case "string":
      if (schema.enum === undefined) return "string"
      return isAnswer ? `Open<${union(schema.enum)}>` : union(schema.enum)
    case "boolean":
      return schema.enum?.join(" | ") ?? "boolean"
    case "integer":
    case "number":
      return "number"
    case "null":
      return "null"
    case "array":
      return `ReadonlyArray<${typeOf(schema.items, isAnswer)}>`
    default:
      return objectOf(schema, isAnswer)
  }
}

const objectOf = ({ additionalProperties, properties = {}, required = [] }, isAnswer) => {
  const members = Object.entries(properties).map(
    ([name, schema]) =>
      `${schema.description === undefined ? "" : comment(schema.description)}readonly ${name}${required.includes(name) ? "" : "?"}: ${typeOf(schema, isAnswer)}`
  )
  if (members.length > 0) return `{\n${members.join("\n")}\n}`
  // An interface of a program has no index signature, so it is no record.
  return Object.keys(additionalProperties ?? {}).length > 0
    ? `{ readonly [name: string]: ${typeOf(additionalProperties, isAnswer)} }`
    : "object"
}

/** What a value of a schema must be: see `Shape` in client/calls/Answers.ts. A value that only a later service has passes, too. */
const shapeOf = ({
  $ref,
  additionalProperties,
  anyOf,
  enum: known,
  items,
  properties,
  required = [],
  type
}) => {
  if ($ref !== undefined) return shapeOf(schemas[nameOf($ref)])
  if (anyOf !== undefined) return anyOf.map(shapeOf).join("|")
  if (type === "array") return { "[]": shapeOf(items) }
  if (type === "boolean") return known?.join("|") ?? "true|false"
  if (type !== "object") return type === "integer" ? "number" : type
  if (properties === undefined) return { "*": shapeOf(additionalProperties) }
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [
      required.includes(name) ? name : `${name}?`,
      shapeOf(schema)
    ])
  )
}

const [document, tables] = await Promise.all([
  readFile(join(root, "docs/openapi.json"), "utf8").then(JSON.parse),
  loadTables()
])
const { schemas } = document.components
// Every token is a bearer's.
for (const { properties } of Object.values(schemas)) delete properties?.token_type
const codesOf = ({ anyOf, $ref }) =>
  (anyOf ?? [{ $ref }]).map((one) => schemas[nameOf(one.$ref)].properties.error.properties.code.enum[0])
const jsonOf = ({ content }) => content?.["application/json"]?.schema

/** The named objects that a schema reaches. */
const reach = (schema, found = new Set()) => {
  for (const [, name] of JSON.stringify(schema ?? {}).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
    if (found.has(name) || schemas[name].type !== "object") continue
    found.add(name)
    reach(schemas[name], found)
  }
  return found
}

// The identity service alone calls the webhook.
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(path === "/webhook" ? {} : methods).map(([method, { requestBody, responses }]) => {
    const [successes, failures] = [/^2/, /^[45]/].map((status) =>
      Object.entries(responses).flatMap(([code, response]) => (status.test(code) ? [jsonOf(response)] : []))
    )
    const route = `${method.toUpperCase()} ${path}`
    return {
      route,
      answer: successes[0],
      request: jsonOf(requestBody ?? {}),
      codes: failures.flatMap(codesOf)
    }
  })
)
const answers = reach(operations.map(({ answer }) => answer ?? {})).add("FailureDetails")
const requests = reach(operations.map(({ request }) => request ?? {}))

const declare = (name) => {
  const { description } = schemas[name]
  const type = typeOf(schemas[name], answers.has(name))
  const isObject = type.startsWith("{\n")
  return `${description === undefined ? "" : comment(description)}export ${isObject ? "interface" : "type"} ${name} ${isObject ? "" : "= "}${type}`
}

const ownCodes = { ...tables.failureTable, ...tables.clientErrorTable }
const codeOf = ([code, { hint, message }]) =>
  `readonly ${code}: {\n${comment(message.replace(/\.?$/, "."), tables.hintOf(code, hint, { fields: [] }))}readonly code: "${code}"\n}`
const reasonsOf = ([code, reasons]) => {
  const lines = Object.entries(reasons).map(([reason, { message }]) => ` * - \`${reason}\`: ${message}.`)
  return `readonly ${code}: {\n/**\n${lines.join("\n")}\n */\nreadonly reason: ${union(Object.keys(reasons))}\n}`
}

const text = `/** Made by scripts/client/contract.mjs from docs/openapi.json and the tables of failures. */

/** The values that are known now; a later service may send others. */
export type Open<Known extends string> = Known | (string & Record<never, never>)

${[...new Set([...answers, ...requests])].map(declare).join("\n\n")}

/** Answer and codes of each call, by method and path. */
export interface Operations {
${operations
  .map(
    ({ answer, codes, route }) =>
      `readonly "${route}": { readonly answer: ${answer === undefined ? "void" : typeOf(answer, true)}, readonly codes: ${union(codes)} }`
  )
  .join("\n")}
}

/**
 * What the answers to the calls must be, and the details of failures.
 * @internal
 */
export const shapes = {
${operations
  .flatMap(({ answer, route }) =>
    answer === undefined ? [] : [`"${route}": ${JSON.stringify(shapeOf(answer))},`]
  )
  .join("\n")}
details: ${JSON.stringify(shapeOf(schemas.FailureDetails))}
} as const

/** Every code, with what it means and what to do next. */
export interface Codes {
${Object.entries(ownCodes).map(codeOf).join("\n")}
}

/** The reasons of the codes that have some. */
export interface Reasons {
${Object.entries(tables.reasonTable).map(reasonsOf).join("\n")}
}
`
const file = join(root, "client/Contract.ts")
// Written only when it changes, so that the type checker keeps what it knows.
if (text !== (await readFile(file, "utf8").catch(() => ""))) await writeFile(file, text)
