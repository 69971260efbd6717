/**
 * The texts of errors do not depend on the values of a request. A text that has a part of a value may be a coincidence; then another
 * request without that part is answered by the same text.
 */
import type { Answer } from "./Answers.ts"
import type { Draft } from "./Draft.ts"
import { isList, isMembers, type Json, RawText } from "./JsonText.ts"
import { envelopeOf } from "./Laws.ts"

/** Characters from which on a part of a text counts as repeated. */
const part = 6

/** Headers that are the same in each request. */
const constant = ["host", "content-type", "accept", "accept-encoding", "user-agent"]

const leavesOf = (value: Json): ReadonlyArray<string> => {
  if (value instanceof RawText) return [value.text, String(Number(value.text))]
  if (isList(value)) return value.flatMap(leavesOf)
  if (isMembers(value)) return value.members.flatMap(([, member]) => leavesOf(member))
  return typeof value === "string" || typeof value === "number" ? [String(value)] : []
}

/** The scheme of the contract, which a request may also spell in the wrong place. */
const scheme = "Bearer"

/** The values of a request: of its body, and of the headers that differ. */
const valuesOf = ({ body, headers, value }: Draft): ReadonlyArray<string> => [
  ...(value === undefined ? [String(body ?? "")] : leavesOf(value)),
  ...headers
    .filter(([name]) => !constant.includes(name.toLowerCase()))
    .map(([, given]) => given.replaceAll(scheme, ""))
]

const numbers = /(?<!\w)-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/gi

/** A part of a value in the text: six characters, or a whole number. */
const findShared = (text: string, values: ReadonlyArray<string>): string | undefined => {
  for (const [number] of text.matchAll(numbers)) if (values.includes(number)) return number
  for (let at = 0; at + part <= text.length; at += 1) {
    const piece = text.slice(at, at + part)
    if (values.some((value) => value.includes(piece))) return piece
  }
  return undefined
}

export class ErrorTexts {
  /** Texts that a request without any part of them has. */
  private readonly independent = new Set<string>()
  private readonly suspected = new Map<string, { readonly index: number; readonly shared: string }>()

  note(draft: Draft, answer: Answer): void {
    const error = answer.status < 400 ? undefined : envelopeOf(answer)
    if (error === undefined) return
    const fields = error.details?.fields ?? []
    for (const text of [error.message, error.hint, ...fields.map(({ problem }) => problem)]) {
      if (this.independent.has(text)) continue
      const shared = findShared(text, valuesOf(draft))
      if (shared === undefined) this.independent.add(text)
      else this.suspected.set(text, { index: draft.index, shared })
    }
  }

  get size(): number {
    return this.independent.size
  }

  /** What errors repeat of their requests. */
  repeated(): ReadonlyArray<string> {
    return [...this.suspected].flatMap(([text, { index, shared }]) =>
      this.independent.has(text)
        ? []
        : [`the error of request ${index} repeats ${JSON.stringify(shared)} of it: ${text.slice(0, 200)}`]
    )
  }
}
