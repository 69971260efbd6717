/** What happened, and what to do. */
export interface Problem {
  readonly message: string
  readonly hint: string
}

export type Outcome<A> =
  | { readonly ok: true; readonly value: A }
  | { readonly ok: false; readonly problem: Problem }

export const success = <A>(value: A): Outcome<A> => ({ ok: true, value })
export const failure = (message: string, hint: string): Outcome<never> => ({
  ok: false,
  problem: { message, hint }
})

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The text of a member, or an empty one. */
export const textAt = (value: unknown, name: string): string => {
  const member = isObject(value) ? value[name] : undefined
  return typeof member === "string" ? member : ""
}

/** JSON, or undefined. */
export const readJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
