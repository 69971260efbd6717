/** The fields of a form: one for each header, and one for the body. */
import { type Call, isSigned, type Parameter, parametersOf, type Spec } from "../../src/http/docs/Spec.ts"
import { button, element } from "./Dom.ts"
import { headerProblem } from "./Exchange.ts"
import { bearerHeader, keyHeader, newKey } from "./Prefill.ts"

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement

/** A value that a person may change; then it is no longer filled in. */
export class Field {
  /** Whether a person changed it. */
  isTouched = false
  readonly #mistake: HTMLElement

  constructor(
    readonly name: string,
    readonly control: Control
  ) {
    this.#mistake = element("span", { class: "mistake", id: `${control.id}-mistake` })
    control.addEventListener("input", () => {
      this.isTouched = true
      this.report(undefined)
    })
  }
  get value(): string {
    return this.control.value
  }
  fill(value: string): void {
    if (this.isTouched) return
    this.control.value = value
    this.report(undefined)
  }
  /** Shows what is wrong with the value; undefined: nothing. */
  report(problem: string | undefined): void {
    this.#mistake.textContent = problem ?? ""
    if (problem === undefined) {
      this.control.removeAttribute("aria-invalid")
      this.control.removeAttribute("aria-describedby")
      return
    }
    this.control.setAttribute("aria-invalid", "true")
    this.control.setAttribute("aria-describedby", this.#mistake.id)
  }
  /** The row of the field: its label, its control and its mistake. */
  row(...more: ReadonlyArray<HTMLElement>): HTMLElement {
    return element(
      "div",
      { class: "field" },
      element("label", { for: this.control.id }, this.name),
      element("div", { class: "control" }, this.control, ...more),
      this.#mistake
    )
  }
}

/** Set by the browser, and forbidden to scripts. */
const ofBrowser = ["Origin"]

const common = { autocomplete: "off", spellcheck: "false", autocapitalize: "off" }

const controlOf = (id: string, { schema }: Pick<Parameter, "schema">): Control => {
  if (schema.enum === undefined)
    return element("input", { id, type: "text", placeholder: "not sent", ...common })
  const options = schema.enum.map((value) => element("option", { value: String(value) }, String(value)))
  return element("select", { id }, element("option", { value: "" }, "not sent"), ...options)
}

interface HeaderFields {
  readonly fields: ReadonlyArray<Field>
  readonly rows: HTMLElement
}

/** The fields of all headers of a call. Those that a request needs are shown, the others folded. */
export const headerFields = (spec: Spec, call: Call, onNewKey: () => void): HeaderFields => {
  const text = { schema: {} }
  const shown = [
    ...(isSigned(call) ? [{ name: bearerHeader, required: true, ...text }] : []),
    ...(call.requestBody === undefined ? [] : [{ name: "Content-Type", required: true, ...text }]),
    ...parametersOf(spec, call)
  ].filter(({ name }) => !ofBrowser.includes(name))
  const made = shown.map(({ name, required, schema }) => ({
    isNeeded: required === true || ["X-Org-ID", "X-Testing-Environment-Key"].includes(name),
    field: new Field(name, controlOf(`try-${call.operationId}-${name}`, { schema }))
  }))
  const rowOf = (field: Field) =>
    field.name === keyHeader
      ? field.row(
          button("New key", () => {
            field.isTouched = false
            field.fill(newKey())
            onNewKey()
          })
        )
      : field.row()
  const needed = made.filter(({ isNeeded }) => isNeeded).map(({ field }) => rowOf(field))
  const others = made.filter(({ isNeeded }) => !isNeeded).map(({ field }) => rowOf(field))
  const rows = element(
    "div",
    { class: "fields" },
    ...needed,
    element(
      "details",
      {},
      element("summary", {}, needed.length === 0 ? "Headers" : `More headers (${others.length})`),
      ...others
    )
  )
  return { fields: made.map(({ field }) => field), rows }
}

export const bodyField = (call: Call): Field =>
  new Field("Body", element("textarea", { id: `try-${call.operationId}-body`, rows: "6", ...common }))

/** Marks the fields that cannot be sent; returns the first of them. */
export const checkFields = (headers: ReadonlyArray<Field>, body: Field | undefined): Field | undefined => {
  const problems = headers.map((field) => ({ field, problem: headerProblem(field.name, field.value) }))
  if (body !== undefined) problems.push({ field: body, problem: jsonProblem(body.value) })
  for (const { field, problem } of problems) field.report(problem)
  return problems.find(({ problem }) => problem !== undefined)?.field
}

/** Why text is no JSON; undefined when it is. An empty text is no body. */
const jsonProblem = (text: string): string | undefined => {
  if (text.trim() === "") return undefined
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return `This is not JSON, so nothing was sent. ${error instanceof Error ? error.message : ""}`
  }
}
