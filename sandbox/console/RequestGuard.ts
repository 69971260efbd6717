/**
 * Who may use the console: programs of this machine and the console's own page. It mints sessions, so that pages of other sites must not
 * reach it, also not under a name of their own that leads here (DNS rebinding).
 */

/** What of a request decides. Header values as they arrived. */
export interface RequestHead {
  readonly method: string
  readonly host: string | undefined
  readonly origin: string | undefined
  readonly contentType: string | undefined
}

/** A refusal with its status. */
export interface Denial {
  readonly status: 403 | 415
  readonly message: string
  readonly hint: string
}

const localNames: ReadonlyArray<string> = ["127.0.0.1", "localhost"]

/** `host:port` of a server of this machine, in each of its names. */
const authoritiesOf = (url: string): ReadonlyArray<string> =>
  localNames.map((name) => `${name}:${new URL(url).port}`)

const originsOf = (url: string): ReadonlyArray<string> =>
  authoritiesOf(url).map((authority) => `http://${authority}`)

const isJson = (contentType: string | undefined): boolean =>
  /^application\/json\s*(?:;|$)/i.test(contentType ?? "")

/** `undefined` admits the request. */
export const checkRequest = (
  { contentType, host, method, origin }: RequestHead,
  own: string
): Denial | undefined => {
  if (!authoritiesOf(own).includes(host ?? ""))
    return { status: 403, message: "The console has another name", hint: `open ${own}` }
  if (origin !== undefined && !originsOf(own).includes(origin))
    return { status: 403, message: "Pages of other sites may not use the console", hint: `open ${own}` }
  if (method === "POST" && !isJson(contentType))
    return {
      status: 415,
      message: "The body is not declared as JSON",
      hint: "send Content-Type: application/json"
    }
  return undefined
}
