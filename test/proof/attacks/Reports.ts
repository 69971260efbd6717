/**
 * Hostile reports on their whole way, to the tracker and into the database: markup, references, forged markers, and credentials and names
 * in disguise. Many more are composed in test/services/IssueDraft.test.ts; the texts and their reader are the same.
 */
import * as FastCheck from "effect/FastCheck"
import { repositoryName } from "../../../sandbox/SimulatedUpstreams.ts"
import { iamFaults } from "../../../sandbox/upstreams/Iam.ts"
import { fullSize } from "../../../src/services/IssueDraft.ts"
import { until } from "../../durability/Client.ts"
import { disguised, hostile, secret } from "../../services/text/HostileText.ts"
import { betrays, names, problemsOf, readingsOf } from "../../services/text/IssueReader.ts"
import { bearing, type IdentityAttack, logIn, newKey, writtenBy } from "./Bench.ts"

const reporter = "si:deejay"
const kinds = ["verified", "unverified", "anonymous"] as const

/** The text in disguise where a reader recognises it; else as it is. */
const written = (text: string) =>
  disguised(text).map((way) => (readingsOf(way).some((reading) => reading.includes(text)) ? way : text))

/** A credential and the reporter's name between others' text. */
const sample = FastCheck.tuple(secret, hostile, hostile, hostile).chain(([{ core, text }, ...others]) =>
  FastCheck.tuple(written(text), written(reporter)).map(([credential, name]) => {
    const [before, between, after] = others
    return { core, text: `${before} ${credential}\n${between} ${name} ${after}`, name, credential }
  })
)

const wellFormed = (text: string, length: number): string =>
  text.slice(0, length).replace(/\p{Surrogate}/gu, "")

/** Reports of a slice, and of a full run, whose count is one of connections. */
const countOf = (count: number) => (count >= 5_000 ? 600 : 24)

export const reportAttack: IdentityAttack = {
  name: "hostile reports",
  play: async (bench, seed, count) => {
    const { query, world } = bench
    const session = bearing((await logIn(bench)).accessToken)
    const filed = new Map<string, string>()
    for (const [at, { core, credential, name, text }] of FastCheck.sample(sample, {
      seed,
      numRuns: countOf(count)
    }).entries()) {
      const kind = kinds[at % kinds.length]
      const body = JSON.stringify({
        message: wellFormed(text, 15_000) || "The player stops.",
        pr: "https://github.com/harbor/music/pull/12",
        attachments: [{ name: wellFormed(`${credential}.log`, 100), content: wellFormed(text, 15_000) }],
        context: { [wellFormed(name, 1_000)]: wellFormed(text, 15_000) }
      })
      if (kind === "unverified")
        world.iam.fail({ path: "/api/v1/oauth/introspect", fault: iamFaults.internalError() })
      const headers = [...newKey(), ...(kind === "anonymous" ? [] : session)]
      const answer = await bench.first({ path: "/api/v1/reports", headers, body })
      world.iam.clearFaults()
      if (answer.status !== 200) return [`a hostile report was ${answer.status} ${answer.text}`]
      filed.set(JSON.parse(answer.text).id, core)
    }
    const issueOf = (id: string) =>
      world.tracker.issues(repositoryName).find(({ body }) => body?.includes(id))
    const isFiled = () => [...filed.keys()].every((id) => issueOf(id) !== undefined)
    await until("all issues", isFiled, { every: 50, within: 120_000 })

    const places = [...(await writtenBy(bench))].filter(([place]) => place !== "an issue")
    return [...filed].flatMap(([id, core]) => {
      const [row = {}] = query("SELECT marker, reporter FROM reports WHERE id = ?", id)
      const { body, title = "" } = issueOf(id) ?? {}
      const issue = { title, body: body ?? "" }
      const published = `${title}\n${body}`
      const isNamed =
        row.reporter !== "anonymous" && names(published, reporter, row.reporter !== "unverified")
      return [
        ...problemsOf(issue, `report-ref: ${id}-${row.marker}`, fullSize),
        ...(isNamed ? ["the issue names the reporter"] : []),
        ...(betrays(published, core) ? ["the issue shows the credential"] : []),
        ...places.filter(([, text]) => text.includes(core)).map(([place]) => `${place} shows the credential`)
      ].map((problem) => `report ${row.reporter}: ${problem}`)
    })
  }
}
