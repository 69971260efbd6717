/** Commands of the documents repeat their idempotency key when they are pasted again, and links of the pages resolve. */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { describe, expect, it } from "vitest"

const file = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), "utf8")
const texts: ReadonlyArray<readonly [string, string]> = [
  ...["README.md", "CONTRIBUTING.md", "sandbox/Guide.ts"].map((name) => [name, file(name)] as const),
  ...["docs", "examples"].flatMap((folder) =>
    readdirSync(new URL(`../${folder}`, import.meta.url), { recursive: true, encoding: "utf8" })
      .filter((name) => /\.(?:md|mjs|ts|html)$/.test(name))
      .map((name) => [`${folder}/${name}`, file(`${folder}/${name}`)] as const)
  )
]

it("Commands to paste never generate a key in the command that sends it: a repetition after a lost answer would send another key", () => {
  const inline = /Idempotency-Key: ?[^"'\n]*(?:\$\(|\$\{?(?:RANDOM|SECONDS)|`[a-z])|"key": ?"[^"\n]*\$\(/i
  expect(texts.filter(([, text]) => inline.test(text)).map(([name]) => name)).toEqual([])
})

it("Comments among the commands of the sandbox run nothing in a shell that takes none, as zsh by default", () => {
  const commented = /^ {2}# .*[;&|`']|npm run sandbox +#/m
  expect([file("sandbox/Guide.ts"), file("README.md")].filter((text) => commented.test(text))).toEqual([])
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
