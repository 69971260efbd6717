/** Looks into errors of any origin. */

/** A member of a value; a getter or a proxy of a program's own may fail. */
export const memberOf = (value: object, name: string): unknown => {
  try {
    return Reflect.get(value, name)
  } catch {
    return undefined
  }
}

/** An error, its causes and the errors that it unites, at most 20. */
export const causesOf = (error: unknown): ReadonlyArray<object> => {
  const found: Array<object> = []
  const left: Array<unknown> = [error]
  while (left.length > 0 && found.length < 20) {
    const next = left.shift()
    if (typeof next !== "object" || next === null) continue
    found.push(next)
    const errors = memberOf(next, "errors")
    left.push(memberOf(next, "cause"), ...(Array.isArray(errors) ? errors : []))
  }
  return found
}
