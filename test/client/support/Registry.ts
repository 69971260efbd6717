/**
 * A package registry on loopback that serves the versions of our lock file, and further ones by number: enough for npm
 * to plan an installation, without a network and without a download.
 */
import { once } from "node:events"
import { readFile } from "node:fs/promises"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { root } from "../../support/Process.ts"

interface Locked {
  readonly version?: string
  readonly [field: string]: unknown
}

/** `node_modules/a/node_modules/@b/c` is `@b/c`. */
const nameOf = (path: string): string =>
  path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)

const manifestsOf = (packages: Readonly<Record<string, Locked>>) => {
  const manifests = new Map<string, Map<string, Locked>>()
  for (const [path, { version, ...rest }] of Object.entries(packages)) {
    if (path === "" || version === undefined) continue
    const name = nameOf(path)
    const versions = manifests.get(name) ?? new Map<string, Locked>()
    manifests.set(name, versions.set(version, rest))
  }
  return manifests
}

export const startRegistry = async (further: Readonly<Record<string, string>>) => {
  const lock: unknown = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8"))
  // npm's own format (lockfileVersion 3): a manifest for each path.
  const { packages } = lock as { readonly packages: Readonly<Record<string, Locked>> }
  const manifests = manifestsOf(packages)
  for (const [name, version] of Object.entries(further)) {
    const versions = manifests.get(name)
    const [newest] = [...(versions?.values() ?? [])]
    if (newest !== undefined) versions?.set(version, newest)
  }
  const requested: Array<string> = []
  const server = createServer((request, response) => {
    requested.push(request.url ?? "")
    const name = decodeURIComponent((request.url ?? "/").slice(1))
    const versions = manifests.get(name)
    response.writeHead(versions === undefined ? 404 : 200, { "content-type": "application/json" })
    const manifest = ([version, facts]: readonly [string, Locked]) => ({
      ...facts,
      name,
      version,
      dist: { tarball: `http://${request.headers.host}/${name}/-/${version}.tgz` }
    })
    response.end(
      JSON.stringify({
        name,
        "dist-tags": { latest: [...(versions?.keys() ?? [])].at(-1) },
        versions: Object.fromEntries(
          [...(versions ?? [])].map((entry) => [entry[0], manifest(entry)] as const)
        )
      })
    )
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/`,
    /** Paths of all requests. */
    requested: (): ReadonlyArray<string> => requested,
    close: async () => {
      server.close()
      server.closeAllConnections()
      await once(server, "close")
    }
  }
}
