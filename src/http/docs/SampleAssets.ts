/** Style and script of the samples and of all blocks of code: tabs that keep the reader's language, and copy buttons. */

export const sampleStyle = `
button:focus-visible, [role=tab]:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
.samples { margin: .5rem 0 1rem }
.samples p { margin: .4rem 0; color: var(--soft); font-size: .9rem }
.samples p.language { margin-top: .8rem; font-weight: 600 }
[role=tablist] { display: flex; gap: .2rem; border-bottom: 1px solid var(--line) }
[role=tab] { padding: .3rem .7rem; font: inherit; font-size: .88rem; color: var(--soft); background: none; border: 0; border-bottom: 2px solid transparent; cursor: pointer }
[role=tab]:hover { color: var(--text) }
[role=tab][aria-selected=true] { color: var(--text); border-bottom-color: var(--accent) }
.code { position: relative }
.code pre { padding-right: 5rem }
.copy { position: absolute; top: .45rem; right: .45rem; padding: .15rem .55rem; font: inherit; font-size: .78rem; color: var(--soft); background: var(--ground); border: 1px solid var(--line); border-radius: 5px; cursor: pointer }
.copy:hover { color: var(--text); border-color: var(--soft) }
.said { position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
@media (max-width: 30rem) { .code pre { padding: 2.4rem .9rem .75rem } }
@media print { .copy, [role=tablist] { display: none } }
`

/** A copy button works for every element `.code` with a `pre` and a button `.copy`, also for those that are added later. */
export const sampleScript = `
const make = (name, attributes, text = "") => {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value)
  element.textContent = text
  return element
}

const said = make("p", { class: "said", role: "status" })
document.body.append(said)
for (const pre of document.querySelectorAll("pre")) {
  const box = make("div", { class: "code" })
  pre.replaceWith(box)
  box.append(pre, make("button", { type: "button", class: "copy" }, "Copy"))
}
document.addEventListener("click", async ({ target }) => {
  const button = target.closest(".copy")
  if (button === null) return
  const pre = button.parentElement.querySelector("pre")
  let result = "Copied"
  try {
    await navigator.clipboard.writeText(pre.textContent)
  } catch {
    // Browsers forbid it on a page without TLS.
    getSelection().selectAllChildren(pre)
    result = "Press Ctrl+C"
  }
  button.textContent = said.textContent = result
  setTimeout(() => {
    button.textContent = "Copy"
    said.textContent = ""
  }, 2000)
})

// A browser may forbid storage.
const remembered = () => {
  try { return localStorage.getItem("language") } catch { return null }
}
const remember = (language) => {
  try { localStorage.setItem("language", language) } catch {}
}

const samples = [...document.querySelectorAll(".samples")].map((group, number) => {
  const list = make("div", { role: "tablist", "aria-label": "Language" })
  const tabs = [...group.children].map((panel) => {
    const { language } = panel.dataset
    const id = "sample-" + number + "-" + language
    const tab = make("button", { type: "button", role: "tab", id: id + "-tab", "aria-controls": id, "data-language": language }, panel.querySelector(".language").textContent)
    panel.querySelector(".language").remove()
    for (const [key, value] of [["id", id], ["role", "tabpanel"], ["aria-labelledby", tab.id]]) panel.setAttribute(key, value)
    list.append(tab)
    return { language, tab, panel }
  })
  group.prepend(list)
  return tabs
})

/** Shows a language everywhere; where a call has none, its first. */
const show = (language) => {
  for (const tabs of samples) {
    const chosen = tabs.find((each) => each.language === language) ?? tabs[0]
    for (const { tab, panel } of tabs) {
      const selected = panel === chosen.panel
      tab.setAttribute("aria-selected", String(selected))
      tab.tabIndex = selected ? 0 : -1
      panel.hidden = !selected
    }
  }
}

/** Shows the language of a tab, which stays where it is on the screen. */
const choose = (tab) => {
  const before = tab.getBoundingClientRect().top
  show(tab.dataset.language)
  remember(tab.dataset.language)
  tab.focus({ preventScroll: true })
  scrollBy(0, tab.getBoundingClientRect().top - before)
}

const moves = { ArrowLeft: (at, count) => (at + count - 1) % count, ArrowRight: (at, count) => (at + 1) % count, Home: () => 0, End: (at, count) => count - 1 }
for (const tabs of samples) {
  for (const [index, { tab }] of tabs.entries()) {
    tab.addEventListener("click", () => choose(tab))
    tab.addEventListener("keydown", (event) => {
      if (moves[event.key] === undefined) return
      event.preventDefault()
      choose(tabs[moves[event.key](index, tabs.length)].tab)
    })
  }
}
show(remembered())
`
