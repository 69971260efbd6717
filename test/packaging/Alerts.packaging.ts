/** The alert rules, under the cases that are written for Prometheus' own tool. */
import { spawnSync } from "node:child_process"
import { beforeAll, describe, expect, it } from "vitest"
import { root } from "../world/Fleet.ts"
import { requireProgram } from "../support/Programs.ts"

describe("The alert rules", () => {
  beforeAll(() => requireProgram("promtool", "prometheus"))

  it("fire, and lead to their entry in the documents, as Prometheus evaluates them", () => {
    const { status, stderr, stdout } = spawnSync("promtool", ["test", "rules", "ops/alerts.test.yml"], {
      cwd: root,
      encoding: "utf8"
    })
    expect(status, `${stdout}${stderr}`).toBe(0)
  })
})
