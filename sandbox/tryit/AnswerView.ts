/** What came back, as elements. */
import { codeBlock, element } from "./Dom.ts"
import { type Answer, curlOf, type Request } from "./Exchange.ts"
import { isObject, type Problem, readJson, textAt } from "./Outcome.ts"

/** The error code of a failure; undefined for any other answer. */
const codeOf = ({ text }: Answer): string | undefined => {
  const body = readJson(text)
  const error = isObject(body) ? body.error : undefined
  return isObject(error) ? textAt(error, "code") || undefined : undefined
}

const isReplayed = ({ text }: Answer): boolean => {
  const body = readJson(text)
  return isObject(body) && body.replayed === true
}

/** One sentence, for the live region. */
export const sentenceOf = (answer: Answer): string =>
  [
    `${answer.status} ${answer.statusText}`.trim(),
    ` in ${answer.milliseconds} ms`,
    codeOf(answer) === undefined ? "" : `: ${codeOf(answer)}`,
    isReplayed(answer) ? ": the replay of an earlier answer, nothing happened twice" : ""
  ].join("")

const bodyOf = ({ text }: Answer): string => {
  const value = readJson(text)
  return value === undefined ? text : JSON.stringify(value, null, 2)
}

/** The entry of an error code on the page, with its hint. */
const advice = (answer: Answer): ReadonlyArray<HTMLElement> => {
  const code = codeOf(answer)
  if (code === undefined) return []
  const body = readJson(answer.text)
  const hint = isObject(body) ? textAt(body.error, "hint") : ""
  const name = element("code", {}, code)
  // The page has an entry for each code of its version.
  const entry = document.getElementById(`error-${code}`)
  return [
    element(
      "p",
      { class: "advice" },
      entry === null ? name : element("a", { href: `#${entry.id}` }, name),
      hint === "" ? "" : ` What to do: ${hint}`
    )
  ]
}

const part = (title: string, ...children: ReadonlyArray<HTMLElement>): HTMLElement =>
  element("div", {}, element("p", { class: "part" }, title), ...children)

const folded = (title: string, child: HTMLElement): HTMLElement =>
  element("details", {}, element("summary", {}, title), child)

/** The answer, and the same call as a command. */
export const answerView = (request: Request, answer: Answer): ReadonlyArray<HTMLElement> => [
  ...advice(answer),
  answer.text === ""
    ? element("p", { class: "empty" }, "No body.")
    : part("Body of the answer", codeBlock(bodyOf(answer))),
  folded(
    `Headers of the answer (${answer.headers.length})`,
    codeBlock(answer.headers.map(([name, value]) => `${name}: ${value}`).join("\n"))
  ),
  folded("The same call as curl", codeBlock(curlOf(request)))
]

/** What happened, and what to do. */
export const problemView = ({ message, hint }: Problem): HTMLElement =>
  element("p", { class: "problem" }, element("strong", {}, message), ` ${hint}`)
