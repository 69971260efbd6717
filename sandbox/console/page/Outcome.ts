/** What an action came to, read from its exchange. */
import type { ActionRecord } from "../Protocol.ts"

const objectOf = (text: string): Readonly<Record<string, unknown>> => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === "object" && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}

/** A field of the answer; `undefined` when the answer is no JSON object. */
const answered = ({ exchange }: ActionRecord, name: string): unknown =>
  exchange === null ? undefined : objectOf(exchange.responseBody)[name]

/** The code of the error envelope; `null` without one. */
export const errorCode = (record: ActionRecord): string | null => {
  const error = answered(record, "error")
  return typeof error === "object" && error !== null && "code" in error && typeof error.code === "string"
    ? error.code
    : null
}

export const isSuccess = ({ exchange }: ActionRecord): boolean =>
  exchange !== null && exchange.status !== null && exchange.status < 400

/** Whether the service says that this was done before, and answers as it did then. */
export const isReplay = (record: ActionRecord): boolean =>
  isSuccess(record) && answered(record, "replayed") === true

/** Whether the request was sent with the key of a testing plane. */
export const isOfTestingPlane = ({ exchange }: ActionRecord): boolean =>
  exchange?.requestHeaders["x-testing-environment-key"] !== undefined

/** Whether the delivery that followed a report or an event has arrived. */
export const wasDelivered = ({ calls }: ActionRecord, destination: "tracker" | "tables"): boolean =>
  calls.some(({ isLater, status, to }) => isLater && to === destination && status !== null && status < 300)
