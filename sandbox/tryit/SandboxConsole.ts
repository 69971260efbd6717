/** Calls to the server of the sandbox's console, which mints tokens and signs webhooks as the identity service would. */
import type { Actor, Plane } from "../console/Protocol.ts"
import { failure, isObject, type Outcome, readJson, success, textAt } from "./Outcome.ts"

/** Origin of the console; `sandbox/DocsAddition.ts` writes it before this script. */
declare const sandboxConsole: string

const patienceMillis = 15_000

/** One call. The answers are those of our own server, so their types are claimed, not checked. */
const ask = async (path: string, body?: object): Promise<Outcome<unknown>> => {
  try {
    const response = await fetch(`${sandboxConsole}${path}`, {
      signal: AbortSignal.timeout(patienceMillis),
      ...(body === undefined
        ? {}
        : {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify(body)
          })
    })
    const answer = readJson(await response.text())
    if (response.ok && isObject(answer)) return success(answer)
    return failure(
      textAt(answer, "message") || `The sandbox's console answered ${response.status}.`,
      textAt(answer, "hint") || "Start the sandbox again, and reload this page."
    )
  } catch {
    return failure(
      `The sandbox's console at ${sandboxConsole} does not answer.`,
      "Start the sandbox again (npm run sandbox), and open the address that it prints."
    )
  }
}

export interface Actors {
  readonly planes: ReadonlyArray<Plane>
  readonly actors: ReadonlyArray<Actor>
}

export interface SignedWebhook {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A person of a plane. */
export interface Who {
  readonly plane: Plane
  readonly actor: Actor
}

// The three answers have the types of the console's protocol.
export const readActors = () => ask("/actors") as Promise<Outcome<Actors>>

export const mintSlt = ({ plane, actor }: Who) =>
  ask("/slt", { plane: plane.id, actor: actor.publicId }) as Promise<Outcome<{ readonly slt: string }>>

/** An event that changes nothing: the entry of the actor was updated. */
export const signWebhook = ({ plane, actor }: Who) =>
  ask("/signed-webhook", {
    plane: plane.id,
    event: `organization.${actor.publicId.startsWith("c:") ? "membership" : "silicon"}.updated.v1`,
    actor: actor.publicId,
    org: actor.organizations[0] ?? null
  }) as Promise<Outcome<SignedWebhook>>
