/** The session that the forms use, and the person for whom the next one is made. */
import type { Plane } from "../console/Protocol.ts"
import { send } from "./Exchange.ts"
import { failure, isObject, type Outcome, readJson, success, textAt } from "./Outcome.ts"
import { mintSlt, type Who } from "./SandboxConsole.ts"

export interface Session {
  readonly plane: Plane
  readonly actor: string
  readonly organization: string
  readonly accessToken: string
  readonly refreshToken: string
}

/** The session in the answer of a login or a refresh; undefined in any other. */
export const sessionIn = (text: string, plane: Plane): Session | undefined => {
  const answer = readJson(text)
  if (!isObject(answer)) return undefined
  const [accessToken, refreshToken] = [textAt(answer, "access_token"), textAt(answer, "refresh_token")]
  if (accessToken === "" || refreshToken === "") return undefined
  return {
    plane,
    actor: textAt(answer.actor, "public_id"),
    organization: textAt(answer, "org_id"),
    accessToken,
    refreshToken
  }
}

/** Logs in: a new token of the sandbox's identity service, exchanged at the service. */
const logIn = async (who: Who): Promise<Outcome<Session>> => {
  const minted = await mintSlt(who)
  if (!minted.ok) return minted
  const answer = await send({
    method: "POST",
    path: "/api/v1/auth/login",
    headers: [
      ["Content-Type", "application/json"],
      ["Idempotency-Key", crypto.randomUUID()],
      ...(who.plane.key === null ? [] : [["X-Testing-Environment-Key", who.plane.key] as const])
    ],
    body: JSON.stringify({ slt: minted.value.slt })
  })
  if (!answer.ok) return answer
  const session = sessionIn(answer.value.text, who.plane)
  if (session !== undefined) return success(session)
  const error = readJson(answer.value.text)
  const { message, hint } = isObject(error) && isObject(error.error) ? error.error : {}
  return failure(
    `The login answered ${answer.value.status}: ${String(message ?? "no reason")}.`,
    String(hint ?? "Try again.")
  )
}

/** Called after each change, with what caused it. */
type Listener = (cause: unknown) => void

export class Sessions {
  #session: Session | undefined
  #who: Who
  #starting: Promise<Outcome<Session>> | undefined
  readonly #listeners: Array<Listener> = []

  constructor(who: Who) {
    this.#who = who
  }
  get session(): Session | undefined {
    return this.#session
  }
  get who(): Who {
    return this.#who
  }
  select(who: Who): void {
    this.#who = who
    this.#announce(undefined)
  }
  replace(session: Session | undefined, cause: unknown): void {
    this.#session = session
    this.#announce(cause)
  }
  /** Replaces the session by a new one of the selected person. Forms that open at once share one login. */
  start(): Promise<Outcome<Session>> {
    this.#starting ??= logIn(this.#who).then((made) => {
      this.#starting = undefined
      if (made.ok) this.replace(made.value, undefined)
      return made
    })
    return this.#starting
  }
  listen(listener: Listener): void {
    this.#listeners.push(listener)
  }
  #announce(cause: unknown): void {
    for (const listener of this.#listeners) listener(cause)
  }
}
