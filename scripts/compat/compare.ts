/** What changed between two OpenAPI documents for clients that were written against the first. */
import {
  breaks,
  type Finding,
  listOf,
  type Members,
  membersOf,
  resolve,
  same,
  textsOf,
  warns
} from "./document.ts"
import { compareSchemas } from "./schemas.ts"

interface Operation {
  readonly document: Members
  readonly operation: Members
}

type Pair = { readonly before: Operation; readonly after: Operation; readonly where: string }

const methods = ["get", "put", "post", "delete", "options", "head", "patch", "trace"]

const operationsOf = (document: Members): ReadonlyMap<string, Operation> =>
  new Map(
    Object.entries(membersOf(document.paths)).flatMap(([path, item]) =>
      Object.entries(membersOf(item))
        .filter(([method]) => methods.includes(method))
        .map(([method, operation]): [string, Operation] => [
          `${method.toUpperCase()} ${path}`,
          {
            document,
            operation: {
              ...membersOf(operation),
              // Parameters of the path count for each of its methods.
              parameters: [...listOf(membersOf(item).parameters), ...listOf(membersOf(operation).parameters)],
              security: membersOf(operation).security ?? document.security
            }
          }
        ])
    )
  )

/** By place and name; names of headers are the same in any case. */
const parametersOf = ({ document, operation }: Operation): ReadonlyMap<string, Members> =>
  new Map(
    listOf(operation.parameters).map((given): [string, Members] => {
      const parameter = resolve(document, given)
      const name = String(parameter.name)
      return [`${parameter.in} ${parameter.in === "header" ? name.toLowerCase() : name}`, parameter]
    })
  )

const comparedParameters = ({ before, after, where }: Pair): ReadonlyArray<Finding> => {
  const [old, now] = [parametersOf(before), parametersOf(after)]
  const gone = [...old].flatMap(([key, { name }]) =>
    now.has(key) ? [] : [warns(`${where} ${name}`, "is no longer read")]
  )
  const rest = [...now].flatMap(([key, parameter]) => {
    const at = `${where} ${parameter.name}`
    const known = old.get(key)
    if (known === undefined) return parameter.required === true ? [breaks(at, "is new and required")] : []
    return [
      ...(parameter.required === true && known.required !== true ? [breaks(at, "is required now")] : []),
      ...compareSchemas(
        "request",
        { document: before.document, schema: known.schema },
        { document: after.document, schema: parameter.schema },
        at
      )
    ]
  })
  return [...gone, ...rest]
}

const bodyOf = ({ document, operation }: Operation): Members | undefined =>
  operation.requestBody === undefined ? undefined : resolve(document, operation.requestBody)

const comparedBody = ({ before, after, where }: Pair): ReadonlyArray<Finding> => {
  const at = `${where} body`
  const [old, now] = [bodyOf(before), bodyOf(after)]
  if (now === undefined) return old === undefined ? [] : [breaks(at, "is no longer taken")]
  if (old === undefined) return now.required === true ? [breaks(at, "is required now")] : []
  const [oldBound, newBound] = [old["x-max-bytes"], now["x-max-bytes"]]
  const shrunk =
    typeof newBound === "number" && (typeof oldBound !== "number" || newBound < oldBound)
      ? [breaks(at, `may have ${newBound} bytes, no longer ${oldBound ?? "any number"}`)]
      : []
  const [oldContent, newContent] = [membersOf(old.content), membersOf(now.content)]
  return [
    ...(now.required === true && old.required !== true ? [breaks(at, "is required now")] : []),
    ...shrunk,
    ...Object.entries(oldContent).flatMap(([type, media]) =>
      type in newContent
        ? compareSchemas(
            "request",
            { document: before.document, schema: membersOf(media).schema },
            { document: after.document, schema: membersOf(newContent[type]).schema },
            at
          )
        : [breaks(at, `is no longer taken as ${type}`)]
    )
  ]
}

/** The envelopes of a failure by their codes; nothing for any other answer. */
const codesOf = (document: Members, schema: unknown): ReadonlyMap<string, Members> => {
  const whole = resolve(document, schema)
  const members = listOf(whole.anyOf ?? whole.oneOf)
  return new Map(
    (members.length === 0 ? [whole] : members).flatMap((member): ReadonlyArray<[string, Members]> => {
      const envelope = resolve(document, member)
      const error = resolve(document, membersOf(envelope.properties).error)
      const code = resolve(document, membersOf(error.properties).code)
      return textsOf(code.enum ?? [code.const]).map((text) => [text, envelope])
    })
  )
}

const comparedContent = (
  before: { readonly document: Members; readonly schema: unknown },
  after: { readonly document: Members; readonly schema: unknown },
  where: string
): ReadonlyArray<Finding> => {
  const [old, now] = [codesOf(before.document, before.schema), codesOf(after.document, after.schema)]
  if (old.size === 0 || now.size === 0) return compareSchemas("response", before, after, where)
  return [
    ...[...old.keys()]
      .filter((code) => !now.has(code))
      .map((code) => breaks(where, `no longer says ${code}`)),
    ...[...now.keys()].filter((code) => !old.has(code)).map((code) => warns(where, `may say ${code} now`)),
    ...[...old].flatMap(([code, schema]) => {
      const fresh = now.get(code)
      return fresh === undefined
        ? []
        : compareSchemas(
            "response",
            { document: before.document, schema },
            { document: after.document, schema: fresh },
            `${where} ${code}`
          )
    })
  ]
}

const comparedHeaders = (before: Operation, after: Operation, where: string): ReadonlyArray<Finding> => {
  const lowered = ({ operation }: Operation) =>
    new Map(
      Object.entries(membersOf(operation.headers)).map(([name, header]) => [
        name.toLowerCase(),
        { name, header }
      ])
    )
  const now = lowered(after)
  return [...lowered(before)].flatMap(([key, { name, header }]) => {
    const kept = now.get(key)
    return kept === undefined
      ? [breaks(`${where} ${name}`, "is no longer given")]
      : compareSchemas(
          "response",
          { document: before.document, schema: resolve(before.document, header).schema },
          { document: after.document, schema: resolve(after.document, kept.header).schema },
          `${where} ${name}`
        )
  })
}

const comparedResponses = ({ before, after, where }: Pair): ReadonlyArray<Finding> => {
  const [old, now] = [membersOf(before.operation.responses), membersOf(after.operation.responses)]
  const fresh = Object.keys(now)
    .filter((status) => !(status in old))
    .map((status) => warns(`${where} ${status}`, "is a new answer"))
  const known = Object.entries(old).flatMap(([status, response]) => {
    const at = `${where} ${status}`
    if (!(status in now)) return [breaks(at, "is no longer answered")]
    const sides = {
      before: { document: before.document, operation: resolve(before.document, response) },
      after: { document: after.document, operation: resolve(after.document, now[status]) }
    }
    const newContent = membersOf(sides.after.operation.content)
    return [
      ...comparedHeaders(sides.before, sides.after, at),
      ...Object.entries(membersOf(sides.before.operation.content)).flatMap(([type, media]) =>
        type in newContent
          ? comparedContent(
              { document: before.document, schema: membersOf(media).schema },
              { document: after.document, schema: membersOf(newContent[type]).schema },
              at
            )
          : [breaks(at, `is no longer given as ${type}`)]
      )
    ]
  })
  return [...fresh, ...known]
}

/** Each way to be let in, as what it asks for; no entry at all asks for nothing. */
const waysOf = ({ document, operation }: Operation): ReadonlyArray<ReadonlyArray<string>> => {
  const schemes = membersOf(membersOf(document.components).securitySchemes)
  const ways = listOf(operation.security).map((way) =>
    Object.entries(membersOf(way)).flatMap(([name, scopes]) => {
      const { type, scheme, in: place, name: parameter } = resolve(document, schemes[name])
      const asked = JSON.stringify([type, scheme, place, parameter])
      return [asked, ...textsOf(scopes).map((scope) => `${asked} ${scope}`)]
    })
  )
  return ways.length === 0 ? [[]] : ways
}

const comparedSecurity = ({ before, after, where }: Pair): ReadonlyArray<Finding> => {
  const now = waysOf(after)
  const shut = waysOf(before).some((way) => !now.some((asked) => asked.every((part) => way.includes(part))))
  return shut ? [breaks(`${where} security`, "who was let in before may be refused now")] : []
}

const comparedName = ({ before, after, where }: Pair): ReadonlyArray<Finding> =>
  same(before.operation.operationId, after.operation.operationId)
    ? []
    : [
        warns(
          where,
          `operationId changed from ${before.operation.operationId} to ${after.operation.operationId}`
        )
      ]

/** Breaks first. Whatever is only added, or only asks for less, is no finding. */
export const compare = (before: unknown, after: unknown): ReadonlyArray<Finding> => {
  const now = operationsOf(membersOf(after))
  const findings = [...operationsOf(membersOf(before))].flatMap(([where, old]) => {
    const kept = now.get(where)
    if (kept === undefined) return [breaks(where, "is no longer there")]
    const pair: Pair = { before: old, after: kept, where }
    return [
      ...comparedSecurity(pair),
      ...comparedParameters(pair),
      ...comparedBody(pair),
      ...comparedResponses(pair),
      ...comparedName(pair)
    ]
  })
  return [
    ...findings.filter(({ level }) => level === "break"),
    ...findings.filter(({ level }) => level === "warning")
  ]
}
