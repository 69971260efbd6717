/** Digests of what a request carries and of what was kept of it, so that both can be compared without keeping them. */
import { createHash } from "node:crypto"

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The order of names has no meaning. */
const sorted = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sorted)
    : isFields(value)
      ? Object.entries(value)
          .sort(([left], [right]) => (left < right ? -1 : 1))
          .map(([name, member]) => [name, sorted(member)])
      : value

const digest = (value: unknown): string =>
  createHash("sha256")
    .update(JSON.stringify(sorted(value)))
    .digest("hex")

/** The members of a JSON object; none for any other text. */
export const fieldsOf = (text: string): Fields => {
  try {
    const value: unknown = JSON.parse(text)
    return isFields(value) ? value : {}
  } catch {
    return {}
  }
}

/** Everything of a report that a person sent. */
export const reportDigest = ({ attachments, context, message, pr }: Fields): string =>
  digest([message, pr ?? null, attachments ?? [], context ?? null])

/** Type and data of an event of the webhook inbox. */
export const deliveryDigest = (type: unknown, data: unknown): string => digest([type, data])

/** The same of a delivery's body, in production's envelope or in that of a testing plane. */
export const deliveredDigest = (body: Fields): string => {
  const { test } = body
  if (!isFields(test)) return deliveryDigest(body.event_type, body.data)
  return deliveryDigest(isFields(test.metadata) ? test.metadata.event_type : undefined, test.data)
}

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** A telemetry event or its record; an id that names the record is not part of its content. */
export const recordDigest = (event: Fields): string => {
  const { id, ...others } = event
  return digest(typeof id === "string" && uuid.test(id) ? others : event)
}

/** A ting as it was asked for, or as Ting has it. */
export const tingDigest = ({ data, metadata, type }: Fields, recipient: unknown): string =>
  digest([type, data, metadata ?? {}, recipient])
