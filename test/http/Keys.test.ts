import { expect } from "vitest"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { sharing } from "../world/Test.ts"
import { errorOf, outcomeOf, requests, shared, sharedInMemory } from "./support.ts"

sharing(sharedInMemory())("A key that two callers choose", (it) => {
  it.effect(
    "is a conflict for the second, which spends nothing and shows nothing of the first",
    function* () {
      const server = yield* shared
      const weak = { "idempotency-key": "0000000000000001" }
      const slt = (actor: string) =>
        server.upstreams.iam.controls.mintSlt(production, { appId: "music", actor })
      const [first, second] = [yield* server.login(), yield* server.login("c:ana")]
      for (const [mine, others, again] of [
        [requests.login(slt("si:deejay"), weak), requests.login(slt("c:ana"), weak), 200],
        [requests.refresh(first.refresh_token, weak), requests.refresh(second.refresh_token, weak), 200],
        [requests.logout(first.refresh_token, weak), requests.logout(second.refresh_token, weak), 204]
      ] as const) {
        const answer = yield* server.send(mine)
        const refused = yield* server.send(others)
        expect([mine.path, outcomeOf(refused)]).toEqual([mine.path, "idempotency_conflict"])
        expect(errorOf(refused).hint).toContain("Use a new key")
        expect(refused.text).not.toMatch(/oat_|ort_|si:deejay/)
        expect((yield* server.send(mine)).text).toBe(answer.text)
        expect(outcomeOf(yield* server.send({ ...others, headers: requests.login("x").headers }))).toBe(again)
      }
    }
  )
})
