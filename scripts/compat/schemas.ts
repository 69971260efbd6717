/** Comparing two JSON Schemas for one direction: what a client may send, or what it may receive. */
import {
  breaks,
  type Finding,
  isMembers,
  listOf,
  type Members,
  membersOf,
  resolve,
  same,
  textsOf,
  warns
} from "./document.ts"

export type Direction = "request" | "response"

export interface Side {
  readonly document: Members
  readonly schema: unknown
}

interface Comparison {
  readonly direction: Direction
  readonly before: Members
  readonly after: Members
  readonly documents: readonly [Members, Members]
  readonly where: string
  readonly seen: ReadonlySet<string>
}

const lower = ["minLength", "minItems", "minimum", "exclusiveMinimum", "minProperties"]
const upper = ["maxLength", "maxItems", "maximum", "exclusiveMaximum", "maxProperties"]
const exact = ["pattern", "format", "multipleOf", "uniqueItems"]
/** Keywords that this check cannot judge: any change of one is taken for a break. */
const opaque = [
  "allOf",
  "not",
  "if",
  "then",
  "else",
  "prefixItems",
  "contains",
  "propertyNames",
  "dependentRequired"
]

const typesOf = (schema: Members): ReadonlyArray<string> | undefined => {
  if (typeof schema.type === "string") return [schema.type]
  return Array.isArray(schema.type) ? textsOf(schema.type) : undefined
}

const covers = (wider: ReadonlyArray<string>, type: string): boolean =>
  wider.includes(type) || (type === "integer" && wider.includes("number"))

const valuesOf = (schema: Members): ReadonlyArray<unknown> | undefined =>
  "const" in schema ? [schema.const] : Array.isArray(schema.enum) ? schema.enum : undefined

const said = (value: unknown): string => (value === undefined ? "none" : JSON.stringify(value))
const listed = (values: ReadonlyArray<unknown>): string => values.map(said).join(", ")

const comparedTypes = ({ direction, before, after, where }: Comparison): ReadonlyArray<Finding> => {
  const [old, now] = [typesOf(before), typesOf(after)]
  const change = `type changed from ${old?.join(" or ") ?? "any"} to ${now?.join(" or ") ?? "any"}`
  const [narrow, wide] = direction === "request" ? [old, now] : [now, old]
  if (wide === undefined) return []
  return narrow?.every((type) => covers(wide, type)) === true ? [] : [breaks(where, change)]
}

const comparedValues = ({ direction, before, after, where }: Comparison): ReadonlyArray<Finding> => {
  const [old, now] = [valuesOf(before), valuesOf(after)]
  if (direction === "request") {
    if (now === undefined) return []
    if (old === undefined) return [breaks(where, `takes only ${listed(now)} now`)]
    const gone = old.filter((value) => !now.some((kept) => same(kept, value)))
    return gone.length === 0 ? [] : [breaks(where, `no longer takes ${listed(gone)}`)]
  }
  if (old === undefined) return []
  if (now === undefined) return [warns(where, "may be any value now, no longer one of a list")]
  const fresh = now.filter((value) => !old.some((known) => same(known, value)))
  return fresh.length === 0 ? [] : [warns(where, `may be ${listed(fresh)} now`)]
}

/** A narrower bound breaks requests; a wider one can surprise who receives. */
const comparedBounds = ({ direction, before, after, where }: Comparison): ReadonlyArray<Finding> => {
  const changed = (name: string) => `${name} changed from ${said(before[name])} to ${said(after[name])}`
  const tightens = (name: string, [old, now]: readonly [unknown, unknown]): boolean => {
    if (typeof now !== "number") return false
    if (typeof old !== "number") return true
    return lower.includes(name) ? now > old : now < old
  }
  return [...lower, ...upper].flatMap((name) => {
    const [old, now] = [before[name], after[name]]
    if (direction === "request") return tightens(name, [old, now]) ? [breaks(where, changed(name))] : []
    return tightens(name, [now, old]) ? [warns(where, changed(name))] : []
  })
}

const comparedForms = ({ direction, before, after, where }: Comparison): ReadonlyArray<Finding> =>
  exact.flatMap((name) => {
    const [old, now] = [before[name], after[name]]
    if (same(old, now)) return []
    const free = direction === "request" ? now : old
    // No form at all takes, or promised, everything.
    if (free === undefined || free === false) return []
    const what = `${name} changed from ${said(old)} to ${said(now)}`
    return [direction === "response" && name !== "format" ? warns(where, what) : breaks(where, what)]
  })

const comparedOpaque = ({ before, after, where }: Comparison): ReadonlyArray<Finding> =>
  opaque.flatMap((name) =>
    same(before[name], after[name]) ? [] : [breaks(where, `${name} changed: this check cannot judge it`)]
  )

const isClosed = (schema: Members): boolean => schema.additionalProperties === false
const pathTo = (where: string, name: string): string => `${where}.${name}`

const deeper = (comparison: Comparison, before: unknown, after: unknown, where: string) =>
  compared({ ...comparison, before: membersOf(before), after: membersOf(after), where })

const comparedMembers = (comparison: Comparison): ReadonlyArray<Finding> => {
  const { direction, before, after, where } = comparison
  const [old, now] = [membersOf(before.properties), membersOf(after.properties)]
  const [oldRequired, nowRequired] = [textsOf(before.required), textsOf(after.required)]
  const kept = Object.keys(old).filter((name) => name in now)
  const gone = Object.keys(old).filter((name) => !(name in now))
  const within = kept.flatMap((name) => deeper(comparison, old[name], now[name], pathTo(where, name)))
  if (direction === "response") {
    return [
      ...gone.map((name) => breaks(pathTo(where, name), "is no longer given")),
      ...oldRequired
        .filter((name) => name in now && !nowRequired.includes(name))
        .map((name) => breaks(pathTo(where, name), "may be missing now")),
      ...within
    ]
  }
  return [
    ...gone.map((name) =>
      isClosed(after)
        ? breaks(pathTo(where, name), "is no longer taken")
        : warns(pathTo(where, name), "is no longer described")
    ),
    ...nowRequired
      .filter((name) => !oldRequired.includes(name))
      .map((name) => breaks(pathTo(where, name), name in old ? "is required now" : "is new and required")),
    ...within
  ]
}

/** Members beyond the named ones. */
const comparedRest = (comparison: Comparison): ReadonlyArray<Finding> => {
  const { direction, before, after, where } = comparison
  const [old, now] = [before.additionalProperties, after.additionalProperties]
  if (isMembers(old) && isMembers(now)) return deeper(comparison, old, now, pathTo(where, "*"))
  if (direction === "request") {
    if (now === false && old !== false) return [breaks(where, "refuses fields that it does not know now")]
    return isMembers(now) && Object.keys(now).length > 0 && old !== false
      ? [breaks(pathTo(where, "*"), "must have a form now")]
      : []
  }
  return isMembers(old) && Object.keys(old).length > 0 && now !== undefined
    ? [breaks(pathTo(where, "*"), "is no longer given, or has no form any more")]
    : []
}

const comparedItems = (comparison: Comparison): ReadonlyArray<Finding> => {
  const { direction, before, after, where } = comparison
  if (isMembers(before.items) && isMembers(after.items))
    return deeper(comparison, before.items, after.items, `${where}[]`)
  const needed = direction === "request" ? after.items : before.items
  return isMembers(needed) ? [breaks(`${where}[]`, "the form of the items changed")] : []
}

const comparedPlain = (comparison: Comparison): ReadonlyArray<Finding> => {
  const types = comparedTypes(comparison)
  // What else differs between two types is no finding of its own.
  if (types.length > 0) return types
  return [
    ...comparedValues(comparison),
    ...comparedBounds(comparison),
    ...comparedForms(comparison),
    ...comparedOpaque(comparison),
    ...comparedMembers(comparison),
    ...comparedRest(comparison),
    ...comparedItems(comparison)
  ]
}

/** The forms that a value can have: the members of a union, each with what is said of all of them. */
const formsOf = (schema: Members, document: Members): ReadonlyArray<Members> => {
  const { anyOf, oneOf, ...own } = schema
  const members = [...listOf(anyOf), ...listOf(oneOf)]
  return members.length === 0
    ? [schema]
    : members.flatMap((member) => formsOf({ ...resolve(document, member), ...own }, document))
}

const isBreak = ({ level }: Finding): boolean => level === "break"

const described = (schema: Members): string => said(valuesOf(schema) ?? typesOf(schema) ?? "any")

/** Every form of the narrower side must be one of the wider side: sent forms of the new one, received ones of the old one. */
const comparedForAll = (
  comparison: Comparison,
  oldForms: ReadonlyArray<Members>,
  newForms: ReadonlyArray<Members>
): ReadonlyArray<Finding> => {
  const { direction, where } = comparison
  const [narrow, wide] = direction === "request" ? [oldForms, newForms] : [newForms, oldForms]
  return narrow.flatMap((form) => {
    const attempts = wide.map((candidate) => {
      const [before, after] = direction === "request" ? [form, candidate] : [candidate, form]
      return { candidate, findings: comparedPlain({ ...comparison, before, after }) }
    })
    const fitting = attempts.find(({ findings }) => !findings.some(isBreak))
    if (fitting !== undefined) return fitting.findings
    const alike = attempts.filter(({ candidate }) => same(typesOf(candidate), typesOf(form)))
    if (alike.length === 1 && alike[0] !== undefined) return alike[0].findings
    const what = direction === "request" ? "no longer takes the form" : "may have the new form"
    return [breaks(where, `${what} ${described(form)}`)]
  })
}

const compared = (comparison: Comparison): ReadonlyArray<Finding> => {
  const { before, after, documents, seen } = comparison
  const [oldDocument, newDocument] = documents
  const name = JSON.stringify([before.$ref ?? null, after.$ref ?? null])
  const recursive = before.$ref !== undefined || after.$ref !== undefined
  if (recursive && seen.has(name)) return []
  const inner = { ...comparison, seen: recursive ? new Set([...seen, name]) : seen }
  const oldForms = formsOf(resolve(oldDocument, before), oldDocument)
  const newForms = formsOf(resolve(newDocument, after), newDocument)
  const [oldForm, newForm] = [oldForms[0], newForms[0]]
  return oldForms.length === 1 && newForms.length === 1 && oldForm !== undefined && newForm !== undefined
    ? comparedPlain({ ...inner, before: oldForm, after: newForm })
    : comparedForAll(inner, oldForms, newForms)
}

/** What changed for who sends, or for who receives, values of this schema. */
export const compareSchemas = (
  direction: Direction,
  before: Side,
  after: Side,
  where: string
): ReadonlyArray<Finding> =>
  compared({
    direction,
    before: membersOf(before.schema),
    after: membersOf(after.schema),
    documents: [before.document, after.document],
    where,
    seen: new Set()
  })
