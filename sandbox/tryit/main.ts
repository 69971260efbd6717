/** Sends the calls of the documentation page, when a sandbox serves it. */
import { callsOf, type Spec } from "../../src/http/docs/Spec.ts"
import { problemView } from "./AnswerView.ts"
import { callForm } from "./CallForm.ts"
import { button, element } from "./Dom.ts"
import { failure, type Outcome, success } from "./Outcome.ts"
import { usesSession } from "./Prefill.ts"
import { readActors } from "./SandboxConsole.ts"
import { peopleOf, sessionBar } from "./SessionBar.ts"
import { Sessions } from "./Session.ts"
import "./style.css"

/** The contract, from the service itself. */
const readSpec = async (): Promise<Outcome<Spec>> => {
  try {
    return success(await (await fetch("/openapi.json")).json())
  } catch {
    return failure("The service does not answer.", "Start the sandbox again, and reload this page.")
  }
}

/** Adds the form of each call. It is made when it is opened: a token or a signature that nobody uses would grow old. */
const addForms = (spec: Spec, sessions: Sessions): void => {
  for (const call of callsOf(spec)) {
    const samples = document.getElementById(call.operationId)?.querySelector(".samples")
    const details = element("details", { class: "try" }, element("summary", {}, "Try it"))
    details.addEventListener(
      "toggle",
      async () => {
        // A sandbox gives sessions away, so that the first call needs one step less.
        if (usesSession(call) && sessions.session === undefined) await sessions.start()
        details.append(callForm(spec, call, sessions))
      },
      { once: true }
    )
    samples?.after(details)
  }
}

const start = async (place: HTMLElement): Promise<void> => {
  const [spec, known] = await Promise.all([readSpec(), readActors()])
  const give = (problem: { readonly message: string; readonly hint: string }) =>
    place.replaceChildren(
      element(
        "div",
        { class: "try-bar", role: "alert" },
        problemView(problem),
        button("Try again", () => void start(place))
      )
    )
  if (!spec.ok) return give(spec.problem)
  if (!known.ok) return give(known.problem)
  const [first] = known.value.planes.flatMap(({ id }) => peopleOf(known.value, id))
  if (first === undefined) return give({ message: "The sandbox has no actors.", hint: "Start it again." })
  const sessions = new Sessions(first)
  place.replaceChildren(sessionBar(known.value, sessions))
  addForms(spec.value, sessions)
}

const place = element("div", { class: "try-place" })
/** On a narrow screen the list of calls is above the content, and would hide the bar. */
const narrow = matchMedia("(max-width: 60rem)")
const putPlace = () =>
  narrow.matches
    ? document.querySelector(".layout")?.before(place)
    : document.getElementById("main")?.prepend(place)
narrow.addEventListener("change", putPlace)
putPlace()
void start(place)
