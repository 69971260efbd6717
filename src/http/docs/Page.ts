/** The contract as one HTML page: readable without scripts, and without requests to other hosts. */
import { createHash } from "node:crypto"
import { script, style } from "./Assets.ts"
import { callSection } from "./CallSection.ts"
import type { DocsAddition } from "./DocsAddition.ts"
import { failureGuide, guide } from "./Guide.ts"
import { Html, html, none, prose } from "./Html.ts"
import { type Call, callsOf, type Spec } from "./Spec.ts"

/** A source of the Content-Security-Policy that allows exactly this text. */
const hashOf = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`

/** Allows only the scripts and styles of the page by their digests, and requests only for an addition; the icon is a data URL. */
export const contentSecurityPolicy = (addition: DocsAddition | undefined): string =>
  [
    "default-src 'none'",
    `script-src ${[script, ...(addition === undefined ? [] : [addition.script])].map(hashOf).join(" ")}`,
    `style-src ${[style, ...(addition === undefined ? [] : [addition.style])].map(hashOf).join(" ")}`,
    ...(addition === undefined ? [] : [`connect-src ${addition.connectSources.join(" ")}`]),
    "img-src data:",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'"
  ].join("; ")

const icon =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%230f766e' d='M6 2v8.3A2.5 2.5 0 1 0 7 12.3V5h5V2z'/%3E%3C/svg%3E"

const titles: Readonly<Record<string, string>> = {
  auth: "Sessions",
  tings: "Notifications",
  reports: "Reports",
  telemetry: "Telemetry",
  descriptors: "Descriptors",
  system: "System",
  webhooks: "Webhooks"
}

/** In the order in which a caller needs them. */
const order = Object.keys(titles)
const rank = (name: string): number => (order.indexOf(name) + order.length + 1) % (order.length + 1)

const tagsOf = (spec: Spec, calls: ReadonlyArray<Call>) =>
  [...spec.tags]
    .sort((left, right) => rank(left.name) - rank(right.name))
    .map(({ name, description }) => ({
      title: titles[name] ?? name,
      description,
      calls: calls.filter(({ tags }) => tags.includes(name))
    }))

const contents = (tags: ReturnType<typeof tagsOf>): Html => html`<nav aria-label="Contents">
<p class="search" hidden><input id="search" type="search" placeholder="Search ( / )" aria-label="Search calls, headers and codes" autocomplete="off" spellcheck="false"><span id="found" role="status"></span></p>
<ul>
<li><a href="#start">Log in, and make the first call</a></li>
<li><a href="#errors">When a call fails</a></li>
</ul>
${tags.map(
  ({ title, calls }) => html`<div data-group="li"><h2>${title}</h2>
<ul>${calls.map(
    ({ operationId, method, path, summary }) =>
      html`<li><a href="#${operationId}" title="${method} ${path}"><span class="method ${method.toLowerCase()}">${method}</span> <span>${summary}</span></a></li>`
  )}</ul></div>`
)}
<h2>For programs</h2>
<ul><li><a href="/openapi.json">OpenAPI 3.1 document</a></li></ul>
</nav>`

/** Renders the page of a document. */
export const page = (spec: Spec, addition: DocsAddition | undefined): string => {
  const calls = callsOf(spec)
  const tags = tagsOf(spec, calls)
  const { title, version, description } = spec.info
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} ${version}: API</title>
<link rel="icon" href="${icon}">
<style>${new Html({ text: style })}</style>${
    addition === undefined
      ? none
      : html`
<style>${new Html({ text: addition.style })}</style>`
  }
</head>
<body>
<a class="skip" href="#main">To the content</a>
<div class="layout">
${contents(tags)}
<main id="main">
<header>
<h1>${title} <small>${version}</small></h1>
<p>${prose(description)}</p>
</header>
${guide(spec, calls)}
${failureGuide(spec, calls)}
${tags.map(
  ({
    title: heading,
    description: about,
    calls: members
  }) => html`<section class="tag" data-group="[data-find]">
<h2>${heading}</h2>
<p>${about}.</p>
${members.map((member) => callSection(spec, member))}
</section>`
)}
</main>
</div>
<script>${new Html({ text: script })}</script>${
    addition === undefined
      ? none
      : html`
<script>${new Html({ text: addition.script })}</script>`
  }
</body>
</html>
`.text
}
