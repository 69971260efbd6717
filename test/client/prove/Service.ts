/** The service of a test over sockets, with faults that are planned. */
import type { IncomingMessage } from "node:http"
import { type Fault, startFaulty } from "../support/Faulty.ts"
import { makeService } from "../support/Service.ts"

export interface Planned extends Fault {
  /** Last part of the path. */
  readonly call: "refresh" | "me"
}

export const startService = async () => {
  const { expire, fetch, isOver } = makeService()
  let faults: ReadonlyArray<Planned> = []
  const act = async ({ headers, url }: IncomingMessage, body: string) => {
    const answer = await fetch(`http://service${url}`, { headers: headers as Record<string, string>, body })
    const own = { ...Object.fromEntries(answer.headers), "x-request-id": "prove-1" }
    return { status: answer.status, headers: own, body: await answer.text() }
  }
  const { close, url } = await startFaulty(act, (request) => {
    const fault = faults.find(({ call }) => request.url?.endsWith(`/${call}`))
    faults = faults.filter((one) => one !== fault)
    return fault
  })
  return {
    baseUrl: url,
    expire,
    plan: (planned: ReadonlyArray<Planned>) => {
      faults = planned
    },
    isOver,
    close
  }
}
