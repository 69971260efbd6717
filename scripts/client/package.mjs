import { lstatSync } from "node:fs"
import { cp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { entries } from "./bundles.mjs"

const readManifest = async (folder) => JSON.parse(await readFile(join(folder, "package.json"), "utf8"))

const isClient = (folder) =>
  readManifest(folder).then(
    ({ name }) => name === "music-client",
    () => false
  )

/** The folder itself stays: npm may be running in it. */
export const emptyPackage = async (out, isStandard) => {
  const names = await readdir(out)
  const isOurs = isStandard || names.length === 0 || (await isClient(out))
  if (!isOurs) {
    process.stderr.write(`${out} is not empty and no build of the client: choose another folder\n`)
    process.exit(1)
  }
  await Promise.all(names.map((name) => rm(join(out, name), { recursive: true, force: true })))
}

/** Links to other pages of the repository become plain text; the examples are in the package. */
const portableLinks = (text) =>
  text
    .replace(/\]\(\.\.\/examples\//g, "](examples/")
    .replace(/\[([^\]]*)\]\((?!https?:|#|examples\/)[^)]*\)/g, "$1")

const thirdPartyLicenses = async (libraries) => {
  const texts = await Promise.all(
    libraries.map(async (folder) => {
      const { name, version } = await readManifest(folder)
      const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry))
      const license = file === undefined ? "" : await readFile(join(folder, file), "utf8")
      return `${name} ${version}\n\n${license.trim()}\n`
    })
  )
  return `This package contains code of other packages.\n\n${texts.join(`\n${"-".repeat(72)}\n\n`)}`
}

/**
 * Where the package's sources are: what the manifest of the clone says, or the address in MUSIC_REPOSITORY. The repository has no public
 * address of its own, so without one the package names none. As for npm, `owner/name` is at GitHub.
 */
const placesOf = ({ bugs, homepage, repository = process.env.MUSIC_REPOSITORY }) => {
  if (!repository) return {}
  const url = (repository.url ?? repository).replace(
    /^(?:github:)?([\w.-]+\/[\w.-]+)$/,
    "git+https://github.com/$1.git"
  )
  const page = url.replace(/^git\+/, "").replace(/\.git$/, "")
  return {
    repository: { type: "git", url, directory: "client" },
    homepage: homepage ?? `${page}#readme`,
    bugs: bugs ?? { url: `${page}/issues` }
  }
}

/** Writes what is no code: the manifest, the page of the client, the licences and the examples. */
export const writePackageFiles = async (out, libraries) => {
  const [root, { name, ...manifest }] = await Promise.all([readManifest("."), readManifest("client")])
  // Node requires the ES module; a type checker and a bundler need a file of the format of its declarations.
  for (const entry of entries)
    await writeFile(join(out, `${entry}.cjs`), `module.exports = require("./${entry}.js")\n`)
  await writeFile(
    join(out, "package.json"),
    `${JSON.stringify({ name, version: root.version, ...manifest, ...placesOf(root) }, null, 2)}\n`
  )
  await writeFile(join(out, "README.md"), portableLinks(await readFile("docs/client.md", "utf8")))
  await cp("LICENSE", join(out, "LICENSE"))
  await writeFile(join(out, "THIRD-PARTY-LICENSES"), await thirdPartyLicenses(libraries))
  await cp("examples", join(out, "examples"), { recursive: true })
  const page = join(out, "examples/browser/index.html")
  await writeFile(page, (await readFile(page, "utf8")).replaceAll("../../dist/client/", "../../"))
}

/** Makes the package importable by its name in the clone. `target` is relative to node_modules. */
export const linkPackage = async (target) => {
  const place = join("node_modules", "music-client")
  const modules = lstatSync("node_modules", { throwIfNoEntry: false })
  // A linked node_modules belongs to another clone.
  if (modules?.isDirectory() !== true) return
  const there = lstatSync(place, { throwIfNoEntry: false })
  if (there !== undefined && !there.isSymbolicLink()) {
    process.stderr.write(`${place} is no link: the examples use what is installed there\n`)
    return
  }
  await rm(place, { force: true })
  await symlink(target, place, "junction")
}
