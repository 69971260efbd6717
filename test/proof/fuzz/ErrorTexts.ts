/**
 * The texts of errors do not depend on the values of a request. A text that has a part of a value may be a coincidence; then another
 * request without that part is answered by the same text.
 */
import type { RawAnswer } from "../../world/RawHttp.ts"
import { envelopeOf } from "./Laws.ts"
import { type Draft, storyOf } from "./Requests.ts"

/** Characters from which on a part of a text counts as repeated. */
const part = 6
/** Headers that are the same in each request. */
const constant = ["host", "content-type", "accept", "accept-encoding", "user-agent"]
const numbers = /(?<!\w)-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/gi

/** Numbers as JSON has them. */
const written = /[[,:](-?\d[\d.eE+-]*)(?=[,\]}])/g

/** The values of a request, decoded where its body is JSON: of the body, and of the headers that differ. */
const valuesOf = ({ body, message }: Draft): ReadonlyArray<string> => {
  const text = String(body ?? "")
  const leaves: Array<string> = [...text.matchAll(written)].flatMap(([, number = ""]) => [
    number,
    String(Number(number))
  ])
  try {
    JSON.parse(text, (_, value: unknown) => {
      if (typeof value === "string") leaves.push(value)
      return value
    })
  } catch {
    leaves.push(text)
  }
  // A request may also spell the scheme of the contract in the wrong place.
  const headers = message.headers.filter(([name]) => !constant.includes(name.toLowerCase()))
  return [...leaves, ...headers.map(([, given]) => given.replaceAll("Bearer", ""))]
}

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
  private readonly suspected = new Map<string, string>()

  note(draft: Draft, answer: RawAnswer): void {
    const error = answer.status < 400 ? undefined : envelopeOf(answer)
    if (error === undefined) return
    const fields = error.details?.fields ?? []
    for (const text of [error.message, error.hint, ...fields.map(({ problem }) => problem)]) {
      if (this.independent.has(text)) continue
      const shared = findShared(text, valuesOf(draft))
      if (shared === undefined) this.independent.add(text)
      else this.suspected.set(text, `${storyOf(draft)}: its error repeats ${JSON.stringify(shared)}`)
    }
  }

  /** What errors repeat of their requests. */
  repeated(): ReadonlyArray<string> {
    return [...this.suspected].flatMap(([text, story]) =>
      this.independent.has(text) ? [] : [`${story}: ${text.slice(0, 200)}`]
    )
  }
}
