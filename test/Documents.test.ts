/** Commands of the documents repeat their idempotency key when they are pasted again, and links of the pages resolve. */
import { execFileSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { describe, expect, it } from "vitest"
import { openApi } from "../src/http/openapi/OpenApiDocument.ts"
import { page } from "../src/http/docs/Page.ts"
import type { Spec } from "../src/http/docs/Spec.ts"

const file = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), "utf8")
const decoded = (html: string): string =>
  html
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&amp;", "&")

const documentation = page(openApi() as unknown as Spec, undefined)
const texts: ReadonlyArray<readonly [string, string]> = [
  ["/docs", decoded(documentation)],
  ...["README.md", "CONTRIBUTING.md", "sandbox/Guide.ts"].map((name) => [name, file(name)] as const),
  ...["docs", "examples"].flatMap((folder) =>
    readdirSync(new URL(`../${folder}`, import.meta.url), { recursive: true, encoding: "utf8" })
      .filter((name) => /\.(?:md|mjs|ts|html)$/.test(name))
      .map((name) => [`${folder}/${name}`, file(`${folder}/${name}`)] as const)
  )
]

describe("Commands to paste", () => {
  it("never generate a key in the command that sends it: a repetition after a lost answer would send another key", () => {
    const inline = /Idempotency-Key: ?[^"'\n]*(?:\$\(|\$\{?(?:RANDOM|SECONDS)|`[a-z])|"key": ?"[^"\n]*\$\(/i
    expect(texts.filter(([, text]) => inline.test(text)).map(([name]) => name)).toEqual([])
  })

  it("of /docs log in with the same key however often they are pasted", () => {
    const [start = ""] = /<section id="start"[\s\S]*?<\/section>/.exec(documentation) ?? []
    const blocks = [...start.matchAll(/<pre[^>]*><code>([\s\S]*?)<\/code><\/pre>/g)].map(([, code = ""]) =>
      decoded(code)
    )
    const at = blocks.findIndex((block) => block.includes("/auth/login"))
    // The key has its own block, so that copying the command again does not copy the key.
    const [key = "", login = ""] = [blocks[at - 1], blocks[at]]
    const sent = execFileSync(
      "sh",
      [
        "-c",
        [
          'uuidgen() { od -An -N16 -tx1 /dev/urandom | tr -d " \\n"; }',
          `curl() { for word; do case $word in Idempotency-Key:*) echo "$word";; esac; done; }`,
          "MUSIC=http://127.0.0.1:1",
          key,
          login,
          login
        ].join("\n")
      ],
      { encoding: "utf8" }
    )
    const [first, second, ...others] = sent.trim().split("\n")
    expect(first).toMatch(/^Idempotency-Key: [!-~]{16,255}$/)
    expect([second, others]).toEqual([first, []])
  })
})

/** The anchors that GitHub derives from the headings of a page. */
const anchorsOf = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replace(/[^\w\s-]/g, "")
      .trim()
      .replace(/\s/g, "-")
  )

const packed: { readonly files: ReadonlyArray<string> } = JSON.parse(file("package.json"))

describe("The pages", () => {
  // Other teams own the pages of docs/contracts.
  const pages = texts.filter(([name]) => /^(?:README|CONTRIBUTING|docs\/(?!contracts)[^/]+)\.md$/.test(name))
  const links = pages.flatMap(([name, text]) =>
    [...text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)].map(([, path = "", anchor]) => ({
      from: name,
      to: path === "" ? name : new URL(path, `file:///${name}`).pathname.slice(1),
      anchor
    }))
  )

  it("link to existing files and headings", () => {
    expect(links.length).toBeGreaterThan(20)
    const broken = links.filter(({ anchor, to }) => {
      const target = new URL(`../${to}`, import.meta.url)
      if (!existsSync(target)) return true
      return anchor !== undefined && !anchorsOf(readFileSync(target, "utf8")).includes(anchor)
    })
    expect(broken).toEqual([])
  })

  it("link only to files of the package, and the package's list names only existing files", () => {
    expect(
      packed.files.filter(
        (name) => !/^!?dist\b/.test(name) && !existsSync(new URL(`../${name}`, import.meta.url))
      )
    ).toEqual([])
    const missing = links.filter(
      ({ to }) => !packed.files.some((name) => to === name || to.startsWith(`${name}/`))
    )
    expect(missing).toEqual([])
  })

  it("on how it is built name only files and folders that exist", () => {
    const named = pages
      .filter(([name]) => /^(?:CONTRIBUTING|docs\/architecture)\.md$/.test(name))
      .flatMap(([, text]) =>
        [...text.matchAll(/`(\w[\w.-]*(?:\/[\w.-]+)+)\/?`/g)].map(([, path = ""]) => path)
      )
    expect(named.length).toBeGreaterThan(40)
    const places = ["", "src/", "docs/"].flatMap((folder) => ["", ".ts"].map((end) => [folder, end] as const))
    const exists = (path: string) =>
      places.some(([folder, end]) => existsSync(new URL(`../${folder}${path}${end}`, import.meta.url)))
    expect(named.filter((path) => !exists(path))).toEqual([])
  })
})
