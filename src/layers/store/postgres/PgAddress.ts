/** The address of a Postgres database, without the driver. */
import * as Option from "effect/Option"

/** In the place of an empty host. */
const noHost = "socket.invalid"

/**
 * The address as a URL. Driver and tools accept an empty host behind credentials, which a URL refuses:
 * `postgres://user@/music?host=/tmp`. None for an address that the driver refuses as well.
 */
export const parseAddress = (address: string): Option.Option<URL> =>
  Option.fromNullable(
    [address, address.replace("@/", `@${noHost}/`)].find((text) => URL.canParse(text))
  ).pipe(Option.map((text) => new URL(text)))

export const formatAddress = ({ href }: URL): string => href.replace(`${noHost}/`, "/")
