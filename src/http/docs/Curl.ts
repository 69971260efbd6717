/** A request as a curl command. */

/** Quotes text for a shell. */
export const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** The words of a command; `url`, `headers` and `body` are quoted for a shell. */
interface CurlWords {
  readonly method: string
  readonly url: string
  /** Each `Name: value`. */
  readonly headers: ReadonlyArray<string>
  readonly body?: string | undefined
}

export const curlCommand = ({ method, url, headers, body }: CurlWords): string =>
  [
    `curl${method === "GET" ? "" : ` -X ${method}`} ${url}`,
    ...headers.map((header) => `-H ${header}`),
    ...(body === undefined ? [] : [`-d ${body}`])
  ].join(" \\\n  ")
