/** The requests of a seed: each index has its own, whatever is sent before it. */
import { everyBound } from "./Bounds.ts"
import { bodyMutations } from "./BodyMutations.ts"
import { type Draft, toBytes } from "./Draft.ts"
import { frameMutations } from "./FrameMutations.ts"
import { headMutations } from "./HeadMutations.ts"
import { isMembers, type Json, toText } from "./JsonText.ts"
import { type Mutation, stages } from "./Mutation.ts"
import { makeValid, randomFor, type Sessions } from "./Valid.ts"
import type { World } from "./World.ts"

const pools: ReadonlyArray<ReadonlyArray<Mutation>> = [bodyMutations, headMutations, frameMutations]
/** How often a mutation comes from each of them. */
const poolOf: ReadonlyArray<number> = [0, 0, 0, 0, 1, 1, 1, 1, 2]
const counts: ReadonlyArray<number> = [0, 0, 1, 1, 1, 1, 2, 3]

/** A mutation and its random numbers. */
export interface Chosen {
  readonly mutation: Mutation
  readonly purpose: number
}

/** The mutations of an index: a bound at first; then none for a quarter of the requests, three at most. */
export const chooseMutations = (seed: number, index: number): ReadonlyArray<Chosen> => {
  const planned = everyBound[index]
  if (planned !== undefined) return [{ mutation: planned.mutation, purpose: 10 }]
  const random = randomFor(seed, index, 2)
  const chosen: Array<Chosen> = []
  for (let left = counts[random.below(counts.length)] ?? 0; left > 0; left -= 1) {
    const pool = pools[poolOf[random.below(poolOf.length)] ?? 0] ?? []
    const mutation = pool[random.below(pool.length)]
    if (mutation !== undefined) chosen.push({ mutation, purpose: 10 + left })
  }
  return chosen
}

export type Variant = "as it is" | "other content"

const stageNames = { value: "body", text: "body", signed: "body", head: "head", frame: "frame" } as const

const withMember = (value: Json, name: string, member: Json): Json =>
  isMembers(value) ? { members: [...value.members.filter(([each]) => each !== name), [name, member]] } : value

/** The request of an index with the given mutations. `other content`: the same key, and another body. */
export const makeRequest = async (
  seed: number,
  index: number,
  chosen: ReadonlyArray<Chosen>,
  world: World,
  sessions: Sessions,
  variant: Variant = "as it is"
): Promise<Draft> => {
  const draft = await makeValid(seed, index, world, sessions, everyBound[index]?.operation)
  if (variant === "other content" && draft.value !== undefined) {
    // A login, refresh and logout has another token each time.
    if (draft.operation?.id === "reports.submit")
      draft.value = withMember(draft.value, "message", "Other content under a key that was used.")
    if (draft.operation?.id === "tings.send")
      draft.value = withMember(draft.value, "data", { members: [["other", 1]] })
    draft.mutations.push("other content under the key of a request before")
  }
  for (const stage of stages) {
    if (stage === "text" && draft.value !== undefined) draft.body = Buffer.from(toText(draft.value))
    if (stage === "signed" && draft.sign !== undefined)
      draft.headers.push(...draft.sign(draft.body ?? Buffer.alloc(0)))
    for (const { mutation, purpose } of chosen) {
      // The transport answers bad syntax without knowing the method, so its answer to HEAD has a body.
      const isFramed = stage === "frame" && (draft.framing.kind !== "length" || draft.method === "HEAD")
      const isFinal = draft.verbatim !== undefined || isFramed
      if (mutation.stage !== stage || isFinal) continue
      const detail = mutation.apply(draft, randomFor(seed, index, purpose), world)
      if (detail !== undefined) draft.mutations.push(`${stageNames[stage]}: ${mutation.name} (${detail})`)
    }
  }
  if (draft.headers.some(([, value]) => [...value].some(isControl))) draft.malformed ??= "refused"
  if (hasOddTarget(draft)) {
    draft.malformed ??= "perhaps"
    draft.halfClose = true
  }
  if (endsConnection(draft)) {
    draft.last = true
    if (draft.method === "HEAD") draft.method = "GET"
  }
  return draft
}

/** No header may hold a control character but the tab (RFC 9110, 5.5). */
const isControl = (character: string): boolean =>
  (character < " " && character !== "\t") || character === "\u007f"

/** Neither a path nor an address with one: Node's parser knows more forms than RFC 9112, 3.2, and fewer. */
const hasOddTarget = ({ method, target }: Draft): boolean =>
  method !== "CONNECT" &&
  target !== "*" &&
  !target.startsWith("/") &&
  !/^https?:\/\/[^/?#@%]+\/[^%]*$/i.test(target)

/** Bytes of a head beyond which the server perhaps refuses it. */
const longHead = 15_000

/** Perhaps no other request is read after it. */
const endsConnection = ({ body, headers, malformed, method, operation }: Draft): boolean =>
  malformed !== undefined ||
  method === "CONNECT" ||
  (body?.length ?? 0) > (operation?.body?.maxBytes ?? Number.POSITIVE_INFINITY) ||
  headers.reduce((sum, [name, value]) => sum + name.length + value.length + 4, 300) > longHead

/** What a failure is known by: its request can be played again from this. */
export const storyOf = (seed: number, draft: Draft): string =>
  [`seed ${seed} request ${draft.index}: ${draft.operation?.id ?? draft.target}`, ...draft.mutations].join(
    " + "
  )

const shown = 1_500

/** The bytes of a request as text; only credentials of the simulated services are in it. */
export const printRequest = (draft: Draft): string => {
  const bytes = toBytes(draft)
  const text = JSON.stringify(bytes.toString("latin1")).replaceAll("\x7f", "\\u007f")
  return text.length <= shown
    ? text
    : `${text.slice(0, shown - 400)} … ${text.slice(-400)} (${bytes.length} bytes)`
}
