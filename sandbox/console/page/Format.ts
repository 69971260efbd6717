/** Text for a person: durations, JSON, credentials, commands. */
import type { Exchange } from "../Protocol.ts"

const twoDigits = (value: number) => String(value).padStart(2, "0")

/** Such as `1:59`, `59:59` or `1:00:00`. */
export const countdown = (milliseconds: number): string => {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1_000))
  const hours = Math.floor(seconds / 3_600)
  const minutes = Math.floor((seconds % 3_600) / 60)
  return hours > 0
    ? `${hours}:${twoDigits(minutes)}:${twoDigits(seconds % 60)}`
    : `${minutes}:${twoDigits(seconds % 60)}`
}

/** Such as `8 ms` or `1.25 s`. */
export const duration = (milliseconds: number): string => {
  const rounded = Math.round(milliseconds)
  return rounded < 1_000 ? `${rounded} ms` : `${(milliseconds / 1_000).toFixed(2)} s`
}

/** Such as `12 min` or `1 d 2 h`. */
export const offset = (milliseconds: number): string => {
  const minutes = Math.round(milliseconds / 60_000)
  const parts = [
    [Math.floor(minutes / 1_440), "d"],
    [Math.floor((minutes % 1_440) / 60), "h"],
    [minutes % 60, "min"]
  ] as const
  const shown = parts.filter(([value]) => value > 0).map(([value, unit]) => `${value} ${unit}`)
  return shown.length === 0 ? "0 min" : shown.join(" ")
}

/** Such as `30 d`; below two days as `offset`. */
export const days = (milliseconds: number): string => {
  const whole = Math.round(milliseconds / 86_400_000)
  return whole < 2 ? offset(milliseconds) : `${whole} d`
}

/** Such as `14:05:09`, in the browser's zone. */
export const timeOfDay = (at: number): string => new Date(at).toTimeString().slice(0, 8)

/** Such as `just now` or `3 min ago`. */
export const age = (milliseconds: number): string =>
  milliseconds < 60_000 ? "just now" : `${offset(Math.floor(milliseconds / 60_000) * 60_000)} ago`

const credential = /\b(oat_|ort_|oac_|ask_|obo_)([A-Za-z0-9_-]{4})[A-Za-z0-9_-]{8,}/g

/** Credentials as their beginning. The whole value is for copying. */
export const shorten = (text: string): string => text.replace(credential, "$1$2…")

/** Marks that turn the direction of text are shown by their numbers, such as `⟨U+202E⟩`: they mirror nothing on the page. */
export const visible = (text: string): string =>
  text.replaceAll(
    /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (mark) => `⟨U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`
  )

/** Indented when it is JSON, otherwise unchanged. */
export const prettyJson = (text: string): string => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

/** `null` when the text is JSON, otherwise why not. */
export const jsonFault = (text: string): string | null => {
  try {
    JSON.parse(text)
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/** The address without the host. */
export const pathOf = (url: string): string => url.replace(/^https?:\/\/[^/]+/, "")

/** curl prints what it cannot decompress; with the trace, its calls would be drawn in the old action. */
const ownHeaders = new Set(["accept-encoding", "traceparent"])

/** Quotes text for a shell. */
const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** A command for a POSIX shell that sends the same request. */
export const curlOf = ({ method, requestBody, requestHeaders, url }: Exchange): string => {
  const headers = Object.entries(requestHeaders).filter(([name]) => !ownHeaders.has(name))
  const usual = requestBody === null ? "GET" : "POST"
  // With `-X HEAD`, curl would wait for a body.
  const verb = method === usual ? "" : method === "HEAD" ? " -I" : ` -X ${method}`
  return [
    `curl -sgi${verb} ${quote(url)}`,
    ...headers.map(([name, value]) => `-H ${quote(`${name}: ${value}`)}`),
    ...(requestBody === null ? [] : [`--data-raw ${quote(requestBody)}`])
  ].join(" \\\n  ")
}

/** A response as HTTP shows it. */
export const responseText = ({ responseBody, responseHeaders, status }: Exchange): string =>
  [
    `HTTP/1.1 ${status ?? "(no answer)"}`,
    ...Object.entries(responseHeaders).map(([name, value]) => `${name}: ${value}`),
    "",
    responseBody
  ].join("\n")

/** With a capital letter and a full stop; empty when it is empty. */
export const sentence = (text: string): string =>
  text === "" ? "" : `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`

export const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`
