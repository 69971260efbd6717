/** Warns of settings that work and let in or show more than an operator may want. No value of a secret is in a finding. */
import { lookup } from "node:dns/promises"
import { BlockList, isIP, isIPv6 } from "node:net"
import { networkInterfaces } from "node:os"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { SettingsValues } from "../../services/Settings.ts"
import { tableKeyNames } from "../settings/SettingsTable.ts"
import { type Check, type Finding, warn } from "./Finding.ts"

const privateNetworks = new BlockList()
for (const [network, bits] of [
  ["127.0.0.0", 8],
  ["10.0.0.0", 8],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
  ["169.254.0.0", 16],
  // Shared address space of carriers and overlay networks (RFC 6598).
  ["100.64.0.0", 10]
] as const)
  privateNetworks.addSubnet(network, bits, "ipv4")
for (const [network, bits] of [
  ["::1", 128],
  ["fc00::", 7],
  ["fe80::", 10]
] as const)
  privateNetworks.addSubnet(network, bits, "ipv6")

const isPublic = (address: string): boolean =>
  !privateNetworks.check(address, isIPv6(address) ? "ipv6" : "ipv4")

/** Addresses of this machine. */
type Interfaces = ReadonlyArray<string>

const interfaces = (): Interfaces =>
  Object.values(networkInterfaces()).flatMap((found) => (found ?? []).map(({ address }) => address))

/** The first address outside of private networks at which a listener on `host` is reached. */
export const publicAddressOf = (host: string, all: Interfaces): Effect.Effect<string | undefined> =>
  Effect.map(
    host === "0.0.0.0"
      ? Effect.succeed(all.filter((address) => !isIPv6(address)))
      : host === "::"
        ? Effect.succeed(all)
        : isIP(host) !== 0
          ? Effect.succeed([host])
          : Effect.promise(() =>
              lookup(host, { all: true }).then(
                (found) => found.map(({ address }) => address),
                () => []
              )
            ),
    (addresses) => addresses.find(isPublic)
  )

/** Whether a network holds addresses that no proxy of one operator has: nearly all of the internet. */
export const isTooWide = (network: string): boolean => {
  const [host = "", text] = network.split("/")
  if (text === undefined) return false
  const bits = Number(text)
  if (!isIPv6(host)) return bits < 8
  // IPv4 as IPv6 addresses.
  if (/^::ffff:/i.test(host)) return bits < 96 + 8
  return /^f[cd]/i.test(host) ? bits < 7 : bits < 16
}

const proxies = ({ trustedProxies }: Pick<SettingsValues, "trustedProxies">): ReadonlyArray<Finding> => {
  const wide = trustedProxies.filter(isTooWide)
  return wide.length === 0
    ? []
    : [
        warn(
          "settings",
          `MUSIC_TRUSTED_PROXIES trusts ${wide.join(" and ")}: any client there chooses the address that its limits count`,
          "name only the addresses of the proxies, such as 127.0.0.1 or 10.0.0.0/24"
        )
      ]
}

/** One secret in two places is known in both. The name of its table is no part of a table key's secret. */
const sameSecrets = (
  { iam, tables, tracker }: SettingsValues,
  broken: (variable: string) => boolean
): ReadonlyArray<Finding> => {
  const [current, previous] = [...iam.webhookSecrets.values()]
  const named: ReadonlyArray<readonly [string, Redacted.Redacted | undefined]> = [
    ["MUSIC_IAM_APP_SECRET", iam.applicationSecret],
    ["MUSIC_IAM_WEBHOOK_SECRET", current],
    ["MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET", previous],
    ...Option.match(tracker, {
      onNone: () => [],
      onSome: ({ token }) => [["MUSIC_GITHUB_TOKEN", token] as const]
    }),
    ...Option.match(tables, {
      onNone: () => [],
      onSome: ({ keys }) => [...keys].map(([table, key]) => [tableKeyNames[table], key] as const)
    })
  ]
  const places = new Map<string, ReadonlyArray<string>>()
  for (const [name, secret] of named)
    if (secret !== undefined && !broken(name)) {
      const value = Redacted.value(secret).replace(/^table-[a-z]+-/, "")
      places.set(value, [...(places.get(value) ?? []), name])
    }
  return [...places.values()]
    .filter((names) => names.length > 1)
    .map((names) =>
      warn("settings", `${names.join(" and ")} hold the same secret`, "give each a secret of its own")
    )
}

/** Below this number of different characters, a secret was typed, not drawn. */
const leastCharacters = 8
const placeholder = /example|change.?me|sandbox|password|placeholder/i

/** A webhook secret that can be guessed lets others send events as IAM: nothing else verifies them. */
const guessableSecrets = (
  { iam }: SettingsValues,
  broken: (variable: string) => boolean
): ReadonlyArray<Finding> =>
  ["MUSIC_IAM_WEBHOOK_SECRET", "MUSIC_IAM_WEBHOOK_PREVIOUS_SECRET"].flatMap((name, at) => {
    const secret = [...iam.webhookSecrets.values()][at]
    if (secret === undefined || broken(name)) return []
    const value = Redacted.value(secret)
    return new Set(value).size < leastCharacters || placeholder.test(value)
      ? [
          warn(
            "settings",
            `${name} looks like an example: with it, others can send events in IAM's name`,
            "create a random one at IAM, and set it here"
          )
        ]
      : []
  })

/** `broken` names settings that hold no value of the operator. */
export const checkExposure = (
  settings: SettingsValues,
  broken: (variable: string) => boolean,
  all: Interfaces = interfaces()
): Check =>
  Effect.gen(function* () {
    const { adminBind, bind } = settings
    const open = broken("MUSIC_BIND") ? undefined : yield* publicAddressOf(bind.host, all)
    const metrics = yield* Option.match(adminBind, {
      onNone: () => Effect.succeed(undefined),
      onSome: ({ host }) => publicAddressOf(host, all)
    })
    return [
      ...proxies(settings),
      ...(open === undefined
        ? []
        : [
            warn(
              "settings",
              `MUSIC_BIND can be reached at the public address ${open}, and the server speaks plain HTTP`,
              "listen on loopback or a private network, behind a proxy that ends TLS"
            )
          ]),
      ...(metrics === undefined
        ? []
        : [
            warn(
              "settings",
              `MUSIC_ADMIN_BIND can be reached at the public address ${metrics}, and the metrics are not authenticated`,
              "listen on loopback or a private network, such as 127.0.0.1:9464"
            )
          ]),
      ...sameSecrets(settings, broken),
      ...guessableSecrets(settings, broken)
    ]
  })
