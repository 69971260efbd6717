/**
 * Checks of answers and of stored sessions: the members that the client's types promise, and no others. Further members, and further
 * values of a text with known values, pass: a later service may send them.
 */
import type { Session } from "../Contract.ts"
import { isRecord } from "../Values.ts"

/**
 * What a JSON value must be: one of some kinds, as in `string|null`, or all that the members of an object say. The member `name?` may be
 * absent; `*` is for every member, and `[]` for every item of a list. The contract (Contract.ts) has the shapes of the answers.
 */
export type Shape = string | { readonly [member: string]: Shape }

const kindOf = (value: unknown): string => {
  if (value === null || typeof value === "boolean") return String(value)
  return typeof value === "number" && !Number.isFinite(value) ? "" : typeof value
}

/** Whether a value has a shape. */
export const fits = (shape: Shape, value: unknown): boolean =>
  typeof shape === "string"
    ? shape.split("|").includes(kindOf(value))
    : Object.entries(shape).every(([name, inner]) => {
        if (name === "[]") return Array.isArray(value) && value.every((item) => fits(inner, item))
        if (!isRecord(value)) return false
        if (name === "*") return Object.values(value).every((member) => fits(inner, member))
        const key = name.replace("?", "")
        const member = Object.hasOwn(value, key) ? value[key] : undefined
        return (member === undefined && key !== name) || fits(inner, member)
      })

/** What an intermediary or a log filter puts in the place of a credential: one character again and again, stars, or a word. */
const mask = /^(.)\1*$|\*{3}|redacted/i

/** Visible ASCII and no mask: any other token cannot be used, so an answer with one must not replace a session. */
const isToken = (token: string): boolean => /^[\x21-\x7e]+$/.test(token) && !mask.test(token)

/** Whether a session can be used. */
export const isUsable = ({ access_token, expires_in, refresh_token }: Session): boolean =>
  isToken(access_token) && isToken(refresh_token) && expires_in > 0 && expires_in < 1e9
