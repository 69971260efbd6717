/** The fenced blocks of the documents, and what CI runs of them. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../support/Process.ts"

export interface Block {
  /** The document and the heading above, as in "operations.md: Backup". */
  readonly place: string
  readonly language: string
  readonly text: string
}

const read = (name: string) => readFileSync(join(root, name), "utf8")

/** Other teams own docs/contracts. */
export const documents: ReadonlyArray<readonly [name: string, text: string]> = [
  "README.md",
  "CONTRIBUTING.md",
  ...readdirSync(join(root, "docs"))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`)
].map((name) => [name.replace("docs/", ""), read(name)])

const blocksOf = ([name, text]: (typeof documents)[number]): ReadonlyArray<Block> => {
  const found: Array<Block> = []
  let heading = ""
  let open: { readonly language: string; readonly lines: Array<string> } | undefined
  for (const line of text.split("\n")) {
    const fence = /^\s*```(.*)$/.exec(line)
    if (fence === null) {
      if (open !== undefined) open.lines.push(line)
      else heading = /^#+ (.*)$/.exec(line)?.[1] ?? heading
    } else if (open === undefined) open = { language: fence[1] ?? "", lines: [] }
    else {
      found.push({ place: `${name}: ${heading}`, language: open.language, text: open.lines.join("\n") })
      open = undefined
    }
  }
  return found
}

export const blocks: ReadonlyArray<Block> = documents.flatMap(blocksOf)

/** Whole commands that another part of CI runs: each file contains the text beside it. */
export const elsewhere: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "npm ci": { ".ci/run": "npm ci " },
  "npm test": { ".ci/run": "tests test\n" },
  // `npm ci`, then `npm test`.
  "npm cit": { ".ci/run": "tests test\n" },
  "npm run test:slow -- test/documents": { ".ci/run": "tests test:slow\n" },
  "npm run sandbox -- --walk": { ".ci/run": "npm run sandbox -- --walk" },
  // The patched compiler reports the Effect diagnostics together with the types.
  "npm run check": {
    ".ci/run":
      "npx effect-language-service patch >/dev/null\nnpm run types\nnpm run lint\nnpm run format:check\n",
    "package.json": '"npm run types && npm run diagnostics && npm run lint && npm run format:check"'
  },
  ".ci/run": { ".ci/run": "#!/usr/bin/env bash" },
  "npm install <clone>/dist/music-client-*.tgz": {
    "test/client/browser/Package.slow.ts": 'run("npm", ["install", ...words, ...options]'
  }
}

const separator = " && "

/** A block without its comments and without the commands that run elsewhere. */
const remaining = (text: string): string =>
  text
    .split("\n")
    .map((line) =>
      line
        .replace(/(^| +)#.*$/, "")
        .split(separator)
        .filter((command) => elsewhere[command.trim()] === undefined)
        .join(separator)
    )
    .filter((line) => line.trim() !== "")
    .join("\n")

/** The commands of a place that are to run, one script for each block. */
export const scripts = (place: string): ReadonlyArray<string> =>
  blocks
    .filter((block) => block.place === place && block.language === "sh")
    .map(({ text }) => remaining(text))
    .filter((script) => script !== "")

/** The only script of a place. */
export const scriptOf = (place: string): string => {
  const [script, ...others] = scripts(place)
  if (script === undefined || others.length > 0)
    throw new Error(`${place} has ${scripts(place).length} scripts`)
  return script
}

/** Every place with commands that are to run. */
export const places: ReadonlyArray<string> = [
  ...new Set(blocks.map(({ place }) => place).filter((place) => scripts(place).length > 0))
]
