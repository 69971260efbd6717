/** Clients without manners: they repeat at once whatever the answer, or invent credentials. */
import { production } from "../../../sandbox/upstreams/Iam.ts"
import type { InMemoryRequest } from "../../support/InMemoryServer.ts"
import { newKey, requests } from "./Requests.ts"
import type { World } from "./World.ts"

interface Loop {
  readonly kind: string
  readonly name: string
  /** Of each request. */
  readonly address: () => string
  /** Mean milliseconds between two requests, or from an answer to the next request where `waits`. */
  readonly pause: number
  /** Default: it does not wait for answers. */
  readonly waits?: boolean
  /** Milliseconds from the start. */
  readonly from?: number
}

/** Sends for ever. */
export const loop =
  (
    world: World,
    { address, from = 0, kind, name, pause, waits = false }: Loop,
    request: () => InMemoryRequest
  ) =>
  async (): Promise<never> => {
    const { ledger, random, send, time } = world
    await time.sleep(from + random.below(pause))
    for (;;) {
      const sent = send(address(), request()).then(({ code, status }) =>
        ledger.sent(kind, name, status, code)
      )
      if (waits) await sent
      // In step with the ends of its own calls it would always be first.
      await time.sleep(pause * (0.5 + random.next()))
    }
  }

/** 43 characters that no one was given. */
const invented = (world: World): string =>
  Array.from({ length: 43 }, () =>
    "abcdefghijklmnopqrstuvwxyz0123456789".charAt(world.random.below(36))
  ).join("")

/** Invented credentials; IAM's calls for them count for the kind. */
export const inventions = (world: World, kind: string) => {
  const own = (prefix: string): string => world.upstreams.own(`${prefix}_${invented(world)}`, kind)
  return {
    accessToken: () => own("oat"),
    refreshToken: () => own("ort"),
    slt: () => own("oac"),
    testingSecret: () => own("ask")
  }
}

/** An actor of the application. */
export const addActor = (world: World, actor: string): void => {
  if (world.actors.has(actor)) return
  world.actors.add(actor)
  world.upstreams.controls.addActor(production, actor)
  world.upstreams.controls.addMembership(production, actor, "acme")
}

/** A session of an actor that does not mind its manners; undefined when the login was refused. */
export const sessionOf = async (
  world: World,
  kind: string,
  actor: string,
  address: string
): Promise<{ readonly accessToken: string; readonly refreshToken: string } | undefined> => {
  addActor(world, actor)
  const { controls, own } = world.upstreams
  const slt = own(controls.mintSlt(production, { appId: "music", actor }), kind)
  const { body } = await world.send(address, requests.login(slt, newKey()))
  const { access_token, refresh_token } = body
  return typeof access_token === "string" && typeof refresh_token === "string"
    ? { accessToken: own(access_token, kind), refreshToken: own(refresh_token, kind) }
    : undefined
}
