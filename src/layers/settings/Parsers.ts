/** How a setting's text is read. What a parser says of a bad one never holds the value itself. */
import { isIP } from "node:net"
import * as Config from "effect/Config"
import * as ConfigError from "effect/ConfigError"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { isLoopback } from "../../services/Loopback.ts"

export type Parse<A> = (raw: string) => Either.Either<A, string>

export const problem = (name: string, text: string) => Either.left(ConfigError.InvalidData([name], text))

export const field = <A>(name: string, parse: Parse<A>): Config.Config<A> =>
  Config.string(name).pipe(
    Config.mapOrFail((raw) =>
      Either.mapLeft(parse(raw), (text): ConfigError.ConfigError => ConfigError.InvalidData([], text))
    )
  )

export const fallback = <A>(name: string, parse: Parse<A>, value: A): Config.Config<A> =>
  Config.withDefault(field(name, parse), value)

export const matching =
  (pattern: RegExp, text: string): Parse<string> =>
  (raw) =>
    pattern.test(raw) ? Either.right(raw) : Either.left(text)

export const secret =
  (pattern: RegExp, text: string): Parse<Redacted.Redacted> =>
  (raw) =>
    Either.map(matching(pattern, text)(raw), Redacted.make)

export const whole =
  (low: number, high: number): Parse<number> =>
  (raw) =>
    /^\d{1,9}$/.test(raw) && Number(raw) >= low && Number(raw) <= high
      ? Either.right(Number(raw))
      : Either.left(`must be a whole number from ${low} to ${high}`)

export const choice =
  <const A extends string>(...choices: ReadonlyArray<A>): Parse<A> =>
  (raw) => {
    const found = choices.find((candidate) => candidate === raw)
    return found === undefined ? Either.left(`must be one of ${choices.join(", ")}`) : Either.right(found)
  }

export const list =
  <A>(each: Parse<A>): Parse<ReadonlyArray<A>> =>
  (raw) =>
    Either.all(
      raw
        .split(",")
        .map((part) => part.trim())
        .filter((part) => part !== "")
        .map(each)
    )

const parseUrl = (raw: string): Option.Option<URL> =>
  URL.canParse(raw) ? Option.some(new URL(raw)) : Option.none()

/** Base of another service: a path prefix is kept, a trailing slash is not. */
export const serviceUrl: Parse<string> = (raw) =>
  parseUrl(raw).pipe(
    Option.filter(
      (url) =>
        (url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname))) &&
        url.username === "" &&
        url.password === "" &&
        url.search === "" &&
        url.hash === "" &&
        !raw.includes("?") &&
        !raw.includes("#") &&
        url.port !== "0"
    ),
    Option.match({
      onNone: () =>
        Either.left("must be an https URL (http on loopback only) without user, query or fragment"),
      onSome: (url) => Either.right(`${url.origin}${url.pathname.replace(/\/+$/, "")}`)
    })
  )

export const webOrigin: Parse<string> = (raw) =>
  parseUrl(raw).pipe(
    Option.filter(
      (url) =>
        url.origin === raw &&
        (url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname)))
    ),
    Option.match({
      onNone: () =>
        Either.left("must list origins such as https://music.example, without path or trailing slash"),
      onSome: (url) => Either.right(url.origin)
    })
  )

export const address: Parse<{ host: string; port: number }> = (raw) => {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^[\]:\s]+)):(\d{1,5})$/.exec(raw)
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[3])
  return host !== undefined && port <= 65_535
    ? Either.right({ host, port })
    : Either.left("must be host:port, such as 127.0.0.1:8787 or [::1]:8787")
}

export const proxy: Parse<string> = (raw) => {
  const [host = "", bits, ...rest] = raw.split("/")
  const family = isIP(host)
  const fits =
    family !== 0 &&
    rest.length === 0 &&
    (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128)))
  return fits ? Either.right(raw) : Either.left("must list addresses or CIDRs, such as 10.0.0.0/8")
}

export const repository: Parse<{ owner: string; repository: string }> = (raw) => {
  const match = /^([A-Za-z0-9_.-]+)\/([A-Za-z0-9_.-]+)$/.exec(raw)
  const [, owner = "", name = ""] = match ?? []
  return match !== null && ![owner, name].some((part) => part === "." || part === "..")
    ? Either.right({ owner, repository: name })
    : Either.left("must be owner/repository")
}

export const rising: Parse<ReadonlyArray<number>> = (raw) =>
  Either.flatMap(list(whole(1, 86_400))(raw), (seconds) =>
    seconds.length > 0 && seconds.every((value, index) => index === 0 || value > (seconds[index - 1] ?? 0))
      ? Either.right(seconds)
      : Either.left("must list rising seconds, such as 5,15,40")
  )
