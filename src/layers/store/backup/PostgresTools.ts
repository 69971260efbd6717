/** Commands of PostgreSQL's own tools that back up and restore its databases. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { SettingsValues } from "../../../services/Settings.ts"
import { formatAddress, parseAddress } from "../postgres/PgAddress.ts"
import { BackupFailed } from "./DatabaseFiles.ts"

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** Without the password, which the tools ask for, or find in PGPASSWORD or ~/.pgpass. */
const address = (databaseUrl: Redacted.Redacted): Option.Option<string> =>
  Option.map(parseAddress(Redacted.value(databaseUrl)), (url) => {
    url.password = ""
    url.searchParams.delete("password")
    return quoted(formatAddress(url))
  })

/**
 * The address for the sessions of this command, and their name: a parameter of the address comes before the driver's setting. An
 * address that cannot be read is returned as it is; the driver refuses it.
 */
export const withOwnName = (
  databaseUrl: Redacted.Redacted
): { readonly url: Redacted.Redacted; readonly name: string } => {
  const name = `music-backend restore ${process.pid}`
  return Option.match(parseAddress(Redacted.value(databaseUrl)), {
    onNone: () => ({ url: databaseUrl, name }),
    onSome: (url) => {
      url.searchParams.set("application_name", name)
      return { url: Redacted.make(formatAddress(url)), name }
    }
  })
}

const refuse = (
  { databaseUrl }: Pick<SettingsValues, "databaseUrl">,
  command: (url: string) => string
): Effect.Effect<void, BackupFailed> =>
  Option.match(databaseUrl, {
    onNone: () => Effect.void,
    onSome: (url) =>
      Effect.fail(
        new BackupFailed({
          reason: "MUSIC_DATABASE_URL is set: a PostgreSQL database is copied with PostgreSQL's own tools",
          fix: Option.match(address(url), {
            onNone: () => "correct MUSIC_DATABASE_URL, which cannot be read",
            onSome: (readable) => `Run: ${command(readable)}`
          })
        })
      )
  })

/** On PostgreSQL, fails with the command that backs up to `file`, readable by its owner only, and records the time. */
export const refusePostgresBackup = (place: Pick<SettingsValues, "databaseUrl">, file: string) =>
  refuse(
    place,
    (url) =>
      `(umask 077 && pg_dump --format=custom --file=${quoted(file)} --dbname=${url}) && music-backend backup --record`
  )

/**
 * On PostgreSQL, fails with the command that restores `file`. It empties the database first: tables that the backup does not
 * know would make the next upgrade fail. The dump becomes a script, so that emptying and filling are one transaction.
 */
export const refusePostgresRestore = (place: Pick<SettingsValues, "databaseUrl">, file: string) => {
  const script = quoted(`${file}.sql`)
  return refuse(place, (url) =>
    [
      `(umask 077 && pg_restore --file=${script} ${quoted(file)})`,
      `psql --single-transaction --set=ON_ERROR_STOP=1 --command='DROP SCHEMA public CASCADE' --command='CREATE SCHEMA public' --file=${script} --dbname=${url}`,
      `rm ${script}`,
      "music-backend restore --finish"
    ].join(" && ")
  )
}
