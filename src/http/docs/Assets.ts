/** Style and script of the page, both inline; its Content-Security-Policy names their digests. */
import { sampleScript, sampleStyle } from "./SampleAssets.ts"

export const style = `
:root {
  color-scheme: light dark;
  --text: #1c2430; --soft: #566273; --line: #d9dfe7; --ground: #ffffff; --panel: #f4f6f9; --accent: #0b6e66;
  --get: #1259b5; --post: #16703a; --mark: #fff3c4; --danger: #a3261f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #dfe5ee; --soft: #9aa7b8; --line: #303a48; --ground: #12161c; --panel: #1a2029; --accent: #5cc8bd;
    --get: #7fb3ff; --post: #72d596; --mark: #4a4118; --danger: #ff9b92;
  }
}
* { box-sizing: border-box }
html { scroll-padding-top: 1rem }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.55 system-ui, sans-serif }
a { color: var(--accent) }
a:focus-visible, input:focus-visible, pre:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
.skip { position: absolute; left: -999rem }
.skip:focus { left: .5rem; top: .5rem; background: var(--ground); padding: .4rem .8rem; z-index: 1 }
.layout { display: grid; grid-template-columns: 19rem minmax(0, 1fr); max-width: 88rem; margin: 0 auto }
nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1.2rem 1rem; border-right: 1px solid var(--line); font-size: .88rem }
nav h2 { font-size: .72rem; letter-spacing: .06em; text-transform: uppercase; color: var(--soft); margin: 1.1rem 0 .2rem }
nav ul { list-style: none; margin: 0; padding: 0 }
nav a { display: flex; padding: .18rem .4rem; border-radius: 4px; color: inherit; text-decoration: none }
nav .method { flex: none; padding-top: .15em }
nav a:hover { background: var(--panel) }
.search input { width: 100%; padding: .45rem .6rem; font: inherit; color: inherit; background: var(--ground); border: 1px solid var(--soft); border-radius: 6px }
#found { color: var(--soft); font-size: .8rem }
main { padding: 1.5rem 2.2rem 6rem; min-width: 0 }
h1 { margin: 0 0 .4rem; font-size: 1.9rem; line-height: 1.2 }
h1 small { font-size: 1rem; font-weight: 400; color: var(--soft) }
main h2 { margin: 2.6rem 0 .5rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); font-size: 1.4rem }
h3 { margin: 0; font-size: 1.12rem; overflow-wrap: anywhere }
h4 { margin: 1.5rem 0 .4rem; font-size: 1rem }
.call { margin: 1.6rem 0 2.4rem; padding: 1.1rem 1.3rem; border: 1px solid var(--line); border-radius: 8px }
.call:target { border-color: var(--accent) }
.summary { margin: .3rem 0 .5rem; font-weight: 600 }
.access { color: var(--soft) }
.method { display: inline-block; min-width: 2.9rem; font: 700 .72rem/1.4 ui-monospace, monospace; color: var(--soft) }
.method.get { color: var(--get) }
.method.post { color: var(--post) }
h3 .method { font-size: .95rem }
.anchor { color: var(--soft); font-weight: 400; text-decoration: none; padding: 0 .3rem }
code { font: .88em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
:not(pre) > code { background: var(--panel); border-radius: 4px; padding: .08em .3em; overflow-wrap: anywhere }
h3 code.path { background: none; padding: 0; font-size: 1em }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .75rem .9rem; overflow-x: auto; line-height: 1.45; margin: .5rem 0 }
.wide { overflow-x: auto }
table { width: 100%; border-collapse: collapse; font-size: .9rem; margin: .7rem 0 }
caption { text-align: left; font-weight: 600; padding: .3rem 0; color: var(--soft) }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem .4rem 0; border-top: 1px solid var(--line); font-weight: 400 }
thead th { border-top: 0; font-size: .78rem; color: var(--soft) }
tbody th { width: 14rem }
th small { display: block; color: var(--soft) }
td.status { width: 3.4rem; font-variant-numeric: tabular-nums }
table.failures th[scope=row] { width: 17rem }
table.failures td:nth-child(3) { width: 3.4rem }
tbody:target { background: var(--mark) }
.bound, .example { color: var(--soft); font-size: .86em; margin-right: .5em }
.givers { margin: .2rem 0 0; color: var(--soft); font-size: .84em }
dl.headers { display: grid; grid-template-columns: max-content 1fr; gap: .3rem .9rem; font-size: .9rem }
dl.headers dd { margin: 0 }
summary { cursor: pointer; color: var(--soft) }
[hidden] { display: none !important }
@media (max-width: 60rem) {
  .layout { display: block }
  nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line) }
  main { padding: 1.2rem 1rem 4rem }
  .call { padding: .9rem }
  table:not(.failures) :is(thead, tbody th, td) { display: block; width: auto }
  table:not(.failures) thead { display: none }
  table:not(.failures) td { border-top: 0; padding-top: 0 }
  table.failures { min-width: 48rem }
}
@media print {
  nav, .anchor, .skip { display: none }
  .layout { display: block }
}
${sampleStyle}`

/** Adds the search, tabs and copy buttons, and puts the service's own address into the samples; the page works without it. */
export const script = `
"use strict"
if (location.origin.startsWith("http")) for (const origin of document.querySelectorAll(".origin")) origin.textContent = location.origin

const search = document.getElementById("search")
const found = document.getElementById("found")
const parts = [...document.querySelectorAll("[data-find]")].map((element) => {
  const link = document.querySelector('nav a[href="#' + element.id + '"]')
  return { element, entry: link === null ? null : link.closest("li"), text: element.textContent.toLowerCase() }
})
const groups = [...document.querySelectorAll("[data-group]")]

const filter = () => {
  const words = search.value.toLowerCase().split(/\\s+/).filter((word) => word !== "")
  let count = 0
  for (const { element, entry, text } of parts) {
    const matches = words.every((word) => text.includes(word))
    if (matches) count += 1
    element.hidden = !matches
    if (entry !== null) entry.hidden = !matches
  }
  for (const group of groups) group.hidden = [...group.querySelectorAll(group.dataset.group)].every((part) => part.hidden)
  if (words.length > 0) scrollTo(0, 0)
  found.textContent = words.length === 0 ? "" : count === 1 ? "1 section" : count + " sections"
}

const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)))
  if (target === null || target.closest("[hidden]") === null) return
  search.value = ""
  filter()
  target.scrollIntoView()
}

search.parentElement.hidden = false
search.addEventListener("input", filter)
addEventListener("hashchange", reveal)
addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault()
    search.focus()
  } else if (event.key === "Escape" && document.activeElement === search) {
    search.value = ""
    filter()
    search.blur()
  }
})
filter()
${sampleScript}`
