/** compose.yaml: what Compose would make of it, and the rules of this repository. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { parse } from "yaml"
import { settings } from "../../src/layers/settings/SettingsTable.ts"
import { root } from "../support/Process.ts"
import { readRecipe } from "./Recipe.ts"
import { unknownVariables } from "./Variables.ts"

interface Service {
  readonly [field: string]: unknown
  readonly image: string
  readonly environment: Readonly<Record<string, string>>
  readonly secrets: ReadonlyArray<string>
  readonly networks: ReadonlyArray<string>
  readonly ports?: ReadonlyArray<string>
  readonly tmpfs?: ReadonlyArray<string>
  readonly stop_grace_period: string
}

interface Compose {
  readonly services: { readonly server: Service; readonly database: Service }
  readonly networks: Readonly<Record<string, unknown>>
  readonly secrets: Readonly<Record<string, { readonly file: string }>>
}

// The form of our own file; the tests compare what they use of it.
const compose = parse(readFileSync(join(root, "compose.yaml"), "utf8"), { merge: true }) as Compose
const { database, server } = compose.services
const both = [server, database]

describe("The Compose file", () => {
  it("takes all rights from both services, restarts them, and bounds their logs", () => {
    for (const service of both)
      expect(service).toMatchObject({
        read_only: true,
        cap_drop: ["ALL"],
        security_opt: ["no-new-privileges:true"],
        restart: "unless-stopped",
        logging: { driver: "json-file", options: { "max-size": "10m", "max-file": "5" } }
      })
    expect(database.user).toMatch(/^[1-9]\d*:[1-9]\d*$/)
    const user = readRecipe()
      .stages.at(-1)
      ?.find(({ name }) => name === "USER")
      ?.rest.split(":")[0]
    expect(server.tmpfs).toEqual([expect.stringContaining(`/data:uid=${user},`)])
  })

  it("sets only variables that exist, and each secret from a file", () => {
    expect(unknownVariables(Object.keys(server.environment))).toEqual([])
    for (const service of both) {
      const files = Object.entries(service.environment).filter(([name]) => name.endsWith("_FILE"))
      expect(files.map(([, file]) => file)).toEqual(service.secrets.map((name) => `/run/secrets/${name}`))
      for (const name of service.secrets) expect(compose.secrets[name]?.file).toBe(`./secrets/${name}`)
    }
    expect(new Set(both.flatMap(({ secrets }) => secrets))).toEqual(new Set(Object.keys(compose.secrets)))
  })

  it("starts the server when the database is healthy, and publishes it on loopback alone", () => {
    expect(server.depends_on).toEqual({ database: { condition: "service_healthy" } })
    expect(database.healthcheck).toMatchObject({ test: expect.arrayContaining(["pg_isready"]) })
    expect(server.ports).toEqual(["127.0.0.1:8787:8787"])
    expect(database.ports).toBeUndefined()
    expect(database.networks).toEqual(["back"])
    expect(compose.networks).toMatchObject({
      back: { internal: true },
      front: { ipam: { config: [{ gateway: server.environment.MUSIC_TRUSTED_PROXIES }] } }
    })
  })

  it("gives a stop more time than the server takes, and pins the database by version", () => {
    const seconds = Number(/^(\d+)s$/.exec(server.stop_grace_period)?.[1])
    expect(seconds).toBeGreaterThan(Number(settings.MUSIC_SHUTDOWN_GRACE_SECONDS.default))
    expect(database.image).toMatch(/^[\w./-]+:\d+\.\d+-\w+$/)
  })
})
