// Builds and packs the client into dist/music-client-<version>.tgz. The last line of the output is the path of that file.
import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync, rmSync } from "node:fs"
import { join, resolve } from "node:path"
import { fileURLToPath } from "node:url"

process.chdir(fileURLToPath(new URL("..", import.meta.url)))

const run = (program, parameters) => {
  const { status } = spawnSync(program, parameters, { stdio: ["ignore", "ignore", "inherit"] })
  if (status !== 0) process.exit(status ?? 1)
}

run(process.execPath, ["scripts/build-client.mjs"])
for (const name of readdirSync("dist"))
  if (/^music-client-.*\.tgz$/.test(name)) rmSync(join("dist", name), { force: true })
run("npm", ["pack", "./dist/client", "--ignore-scripts", "--pack-destination", "dist"])
const { name, version } = JSON.parse(readFileSync("dist/client/package.json", "utf8"))
process.stdout.write(`${resolve("dist", `${name}-${version}.tgz`)}\n`)
