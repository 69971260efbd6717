/** The form of one call: its fields, its buttons and its answer. */
import type { Call, Spec } from "../../src/http/docs/Spec.ts"
import { answerView, problemView, sentenceOf } from "./AnswerView.ts"
import { button, element } from "./Dom.ts"
import { type Answer, type Request, send } from "./Exchange.ts"
import { bodyField, checkFields, headerFields } from "./Fields.ts"
import type { Problem } from "./Outcome.ts"
import { basisOf, keyHeader, newKey, prefill, sessionHeaders, usesSession } from "./Prefill.ts"
import { sessionIn, type Sessions } from "./Session.ts"

/** The session after a call: the one that it gave, none after a logout, or the one before. */
const followSession = (
  call: Call,
  { body = "" }: Request,
  { status, text }: Answer,
  sessions: Sessions,
  cause: object
): void => {
  const { session, who } = sessions
  if (status >= 400) return
  if (call.operationId === "auth.login") {
    const made = sessionIn(text, who.plane)
    if (made !== undefined) sessions.replace(made, cause)
  }
  if (call.operationId === "auth.refresh" && session !== undefined) {
    const made = sessionIn(text, session.plane)
    if (made !== undefined) sessions.replace(made, cause)
  }
  if (call.operationId === "auth.logout" && session !== undefined && body.includes(session.refreshToken))
    sessions.replace(undefined, cause)
}

/** Makes the form; it fills itself in at once. */
export const callForm = (spec: Spec, call: Call, sessions: Sessions): HTMLFormElement => {
  const self = {}
  const body = call.requestBody === undefined ? undefined : bodyField(call)
  let basis = ""
  // Whether the key belongs to a request that was sent.
  let isSent = false
  let isBusy = false
  const { fields, rows } = headerFields(spec, call, () => {
    isSent = false
  })
  const all = body === undefined ? fields : [...fields, body]
  const status = element("p", { class: "outcome", role: "status" })
  const answer = element("div", { class: "answer" })
  const note = element("div", { class: "note" })
  const sendButton = element("button", { type: "submit", class: "primary" }, "Send")

  const complain = (problem: Problem) => note.replaceChildren(problemView(problem))
  const fillHeaders = (values: Readonly<Record<string, string>>) => {
    const byName = new Map(Object.entries(values).map(([name, value]) => [name.toLowerCase(), value]))
    for (const field of fields) {
      const value = byName.get(field.name.toLowerCase())
      if (value !== undefined) field.fill(value)
    }
  }
  /** Without a session, a call that needs one cannot succeed. */
  const showSession = () => {
    note.replaceChildren()
    if (!usesSession(call) || sessions.session !== undefined) return
    const start = button("Get a session", async () => {
      const made = await sessions.start()
      if (!made.ok) complain(made.problem)
      else sendButton.focus()
    })
    note.append(element("p", {}, "There is no session. ", start))
  }
  const fillAll = async () => {
    basis = basisOf(call, sessions)
    isSent = false
    showSession()
    const values = await prefill(call, sessions)
    if (!values.ok) return complain(values.problem)
    fillHeaders(values.value.headers)
    if (body !== undefined) body.fill(values.value.body ?? "")
  }
  const startOver = async () => {
    for (const field of all) {
      field.isTouched = false
      field.fill("")
    }
    status.textContent = ""
    answer.replaceChildren()
    await fillAll()
  }

  const requestOf = (): Request => ({
    method: call.method,
    path: call.path,
    headers: fields.filter(({ value }) => value !== "").map(({ name, value }) => [name, value] as const),
    body: body === undefined || body.value === "" ? undefined : body.value
  })
  const submit = async () => {
    if (isBusy) return
    const wrong = checkFields(fields, body)
    if (wrong !== undefined) {
      wrong.control.closest("details")?.setAttribute("open", "")
      wrong.control.focus()
      return
    }
    const request = requestOf()
    isBusy = true
    sendButton.setAttribute("aria-disabled", "true")
    status.className = "outcome"
    status.textContent = "Sending…"
    const outcome = await send(request)
    isBusy = false
    isSent = true
    sendButton.removeAttribute("aria-disabled")
    sendButton.textContent = "Send again"
    if (!outcome.ok) {
      status.className = "outcome failed"
      answer.replaceChildren()
      status.textContent = `${outcome.problem.message} ${outcome.problem.hint}`
      return
    }
    status.className = `outcome ${outcome.value.status < 400 ? "succeeded" : "failed"}`
    status.textContent = sentenceOf(outcome.value)
    answer.replaceChildren(...answerView(request, outcome.value))
    followSession(call, request, outcome.value, sessions, self)
    showSession()
  }

  const form = element(
    "form",
    { novalidate: true, "aria-label": `Try ${call.summary}` },
    note,
    rows,
    ...(body === undefined ? [] : [body.row()]),
    element(
      "p",
      { class: "actions" },
      sendButton,
      button("Start over", startOver, { title: "Fill in a new request" }),
      element("small", {}, "Ctrl+Enter sends, too.")
    ),
    status,
    answer
  )
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    void submit()
  })
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    void submit()
  })
  // Another body is another request, which needs another key.
  body?.control.addEventListener("input", () => {
    if (isSent) fillHeaders({ [keyHeader]: newKey() })
    isSent = false
  })
  sessions.listen((cause) => {
    // The form keeps what it has sent, so that it can be sent again.
    if (cause === self) return
    if (basisOf(call, sessions) === basis) {
      fillHeaders(sessionHeaders(call, sessions))
      showSession()
    } else void fillAll()
  })
  void fillAll()
  return form
}
