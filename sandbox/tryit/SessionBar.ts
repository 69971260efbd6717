/** The bar on top: whose session the forms use, and another one. */
import { planeName } from "../console/page/Names.ts"
import { problemView } from "./AnswerView.ts"
import { element } from "./Dom.ts"
import type { Sessions } from "./Session.ts"
import type { Who, Actors } from "./SandboxConsole.ts"

/** The people of a plane; the first one that the page offers is the first of the first plane. */
export const peopleOf = ({ actors, planes }: Actors, planeId: string): ReadonlyArray<Who> =>
  planes
    .filter(({ id }) => id === planeId)
    .flatMap((plane) => actors.filter((actor) => actor.plane === plane.id).map((actor) => ({ plane, actor })))

const describe = ({ session }: Sessions): string => {
  if (session === undefined) return "No session."
  const { actor, organization, plane } = session
  return `${actor} in ${organization}, ${planeName(plane)}`
}

export const sessionBar = (known: Actors, sessions: Sessions): HTMLElement => {
  const plane = element(
    "select",
    { id: "try-plane" },
    ...known.planes.map((each) => element("option", { value: each.id }, planeName(each)))
  )
  const actor = element("select", { id: "try-actor" })
  const state = element("div", { class: "state", role: "status" })
  const start = element("button", { type: "submit", class: "primary" }, "New session")

  // A live region is read aloud whenever it is written.
  const show = () => {
    const text = describe(sessions)
    if (state.textContent !== text) state.textContent = text
  }
  const listActors = () =>
    actor.replaceChildren(
      ...peopleOf(known, plane.value).map((who) => element("option", {}, who.actor.publicId))
    )
  const select = () => {
    const who = peopleOf(known, plane.value).find((each) => each.actor.publicId === actor.value)
    if (who !== undefined) sessions.select(who)
  }
  plane.addEventListener("change", () => {
    listActors()
    select()
  })
  actor.addEventListener("change", select)

  const form = element(
    "form",
    { class: "try-bar", "aria-label": "Session of the sandbox" },
    element("label", {}, "Plane ", plane),
    element("label", {}, "Actor ", actor),
    start,
    state
  )
  form.addEventListener("submit", async (event) => {
    event.preventDefault()
    const made = await sessions.start()
    if (!made.ok) state.replaceChildren(problemView(made.problem))
  })
  sessions.listen(show)
  listActors()
  show()
  return form
}
