/** The fields of a JSON body as a table: one row for each field, nested ones by their dotted path. */
import { type Html, html, none, prose } from "./Html.ts"
import { nameOf, type Schema, type Spec } from "./Spec.ts"

interface Field {
  readonly path: string
  readonly type: string
  readonly required: boolean
  readonly schema: Schema
}

type Schemas = Spec["components"]["schemas"]

const resolveSchema = (schema: Schema, schemas: Schemas): Schema => {
  if (schema.$ref === undefined) return schema
  const { $ref, ...own } = schema
  return { ...schemas[nameOf($ref)], ...own }
}

/** The schema of a value without its null alternative. */
const withoutNull = (
  schema: Schema,
  schemas: Schemas
): { readonly schema: Schema; readonly nullable: boolean } => {
  const { anyOf, ...own } = resolveSchema(schema, schemas)
  if (anyOf === undefined) return { schema: own, nullable: false }
  const [first = {}] = anyOf.filter(({ type }) => type !== "null")
  return {
    schema: { ...resolveSchema(first, schemas), ...own },
    nullable: anyOf.some(({ type }) => type === "null")
  }
}

const typeName = (schema: Schema, schemas: Schemas): string => {
  const { schema: form, nullable } = withoutNull(schema, schemas)
  const noun =
    form.enum !== undefined
      ? form.enum.map((value) => JSON.stringify(value)).join(" or ")
      : form.type === "array" && form.items !== undefined
        ? `array of ${typeName(form.items, schemas)}`
        : (form.type ?? "any")
  return nullable ? `${noun} or null` : noun
}

const rowsOf = (schema: Schema, schemas: Schemas, prefix: string): ReadonlyArray<Field> => {
  const { schema: form } = withoutNull(schema, schemas)
  if (form.type === "array" && form.items !== undefined) return rowsOf(form.items, schemas, `${prefix}[]`)
  return Object.entries(form.properties ?? {}).flatMap(([name, member]) => {
    const path = prefix === "" ? name : `${prefix}.${name}`
    const row: Field = {
      path,
      type: typeName(member, schemas),
      required: form.required?.includes(name) ?? false,
      schema: withoutNull(member, schemas).schema
    }
    return [row, ...rowsOf(member, schemas, path)]
  })
}

const formatRange = (
  low: number | undefined,
  high: number | undefined,
  unit: string
): ReadonlyArray<string> => {
  const format = (value: number) => value.toLocaleString("en")
  if (low !== undefined && high !== undefined) return [`${format(low)} to ${format(high)}${unit}`]
  if (low !== undefined) return [`at least ${format(low)}${unit}`]
  return high === undefined ? [] : [`at most ${format(high)}${unit}`]
}

/** Bounds and format of one value; a pattern states its length too. */
export const boundsOf = (schema: Schema): ReadonlyArray<Html> => [
  ...(schema.pattern === undefined ? [] : [html`<code class="bound">${schema.pattern}</code>`]),
  ...[
    ...(schema.pattern === undefined ? formatRange(schema.minLength, schema.maxLength, " characters") : []),
    ...formatRange(schema.minItems, schema.maxItems, " items"),
    ...formatRange(schema.minimum, schema.maximum, ""),
    ...(schema.format === undefined ? [] : [schema.format])
  ].map((bound) => html`<span class="bound">${bound}</span>`)
]

/** The first example of a value. */
export const exampleOf = ({ examples: [example] = [] }: Schema): Html =>
  example === undefined
    ? none
    : html`<span class="example">such as <code>${typeof example === "string" ? example : JSON.stringify(example)}</code></span>`

/** The label of a mandatory field: in a request, and in a response. */
export type Presence = "required" | "always"

const rowOf = ({ path, type, required, schema }: Field, presence: Presence): Html => html`<tr>
<th scope="row"><code>${path}</code>${required ? html`<small>${presence}</small>` : none}</th>
<td>${type}</td>
<td>${prose(schema.description ?? "")} ${boundsOf(schema)} ${typeof schema.examples?.[0] === "object" ? none : exampleOf(schema)}</td>
</tr>`

/** The table, or a sentence when the schema names no fields. */
export const fieldTable = (schema: Schema, spec: Spec, caption: string, presence: Presence): Html => {
  const { schemas } = spec.components
  const rows = rowsOf(schema, schemas, "")
  const form = resolveSchema(schema, schemas)
  if (rows.length === 0) {
    return form.additionalProperties === false
      ? html`<p>Exactly <code>{}</code>.</p>`
      : html`<p>${prose(form.description ?? "A JSON object")}.</p>`
  }
  return html`<div class="wide"><table>
<caption>${caption}</caption>
<thead><tr><th scope="col">Field</th><th scope="col">Type</th><th scope="col">Meaning</th></tr></thead>
<tbody>${rows.map((row) => rowOf(row, presence))}</tbody>
</table></div>`
}
