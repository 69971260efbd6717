/** Why an exchange failed, from what the platform reports. */
import type { BrokenExchange } from "../transport/Transport.ts"
import type { ErrorOf } from "../Types.ts"
import { isText } from "../Values.ts"
import { causesOf, memberOf } from "./Causes.ts"
import { findReason } from "./ErrorTable.ts"
import { reasonedFailure } from "./Failures.ts"

/** Ports that `fetch` refuses (fetch.spec.whatwg.org, "Port blocking"). */
const blockedPorts = new Set(
  `1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 135 137 139 143 161 179 389 427 465
  512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665
  6666 6667 6668 6669 6679 6697 10080`.split(/\s+/)
)

/** The failure of a request without an answer. The cause is an error of `fetch` or of an `HttpClient`. */
export const connectionFailure = (
  { cause, isOwnFault, originRefused }: BrokenExchange,
  url: string
): ErrorOf<"transport_failed"> => {
  const { host, port } = new URL(url)
  const errors = causesOf(cause)
  const textsOf = (member: string) => errors.map((error) => memberOf(error, member)).filter(isText)
  const codes = textsOf("code")
  // The parser of undici 7 has no code. A program that loads it makes the platform's `fetch` use it.
  const known = [...codes, ...textsOf("name")].find(
    (text) => findReason("transport_failed", text) !== undefined
  )
  const isBlocked = codes.length === 0 && blockedPorts.has(port)
  const otherwise = isOwnFault || isBlocked ? "not_sent" : "network"
  const found = known === undefined ? undefined : findReason("transport_failed", known)
  return reasonedFailure(
    "transport_failed",
    originRefused ? "cors" : (found ?? otherwise),
    { cause },
    { place: host, code: known ?? codes[0] }
  )
}
