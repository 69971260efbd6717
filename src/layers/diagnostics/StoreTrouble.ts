/** What an operator does about a database that cannot be used, by what the store says of it (layers/store/Failures.ts). */

const fixes: ReadonlyArray<readonly [RegExp, string]> = [
  [/ older schema /, "run music-backend migrate, or start the server once"],
  [
    / does not exist: /,
    "set MUSIC_DATABASE_PATH to the server's file, or make one with music-backend migrate"
  ],
  [/ newer schema /, "use the version of music-backend that made it, or restore a backup of this version"],
  [/ lacks migrations /, "run music-backend migrate"],
  [/ is locked /, "end what holds it, or try again"],
  [/ is full/, "make room on its disk"],
  [/ is read-only /, "let this user write it and its folder, or set MUSIC_DATABASE_PATH to another file"],
  [
    / is corrupt/,
    "restore a backup with music-backend restore, or set MUSIC_DATABASE_PATH to the right file"
  ],
  [/ cannot be opened/, "set MUSIC_DATABASE_PATH to a file in a folder that this user may write"],
  [/ refuses the login/, "set user and password in MUSIC_DATABASE_URL right"],
  [/ does not allow /, "give the user of MUSIC_DATABASE_URL the rights of the database's owner"],
  [/ takes no more connections/, "raise max_connections of the server, or end other processes"],
  [/ does not speak TLS| cannot be trusted/, "set sslmode in MUSIC_DATABASE_URL as the server needs it"],
  [/14 or newer is needed/, "use a newer PostgreSQL"],
  [/^Postgres .* does not exist/, "create the database, or name another one in MUSIC_DATABASE_URL"],
  [
    / does not answer| took too long/,
    "start the database server, or set host and port in MUSIC_DATABASE_URL right"
  ],
  [/ is gone/, "put the file back, or set MUSIC_DATABASE_PATH to where it is now"]
]

/** What to do about a `StoreUnavailable`. */
export const storeFix = (reason: string): string =>
  fixes.find(([pattern]) => pattern.test(reason))?.[1] ??
  "set MUSIC_DATABASE_PATH or MUSIC_DATABASE_URL to a database that works"

/** Without the advice that stands behind a colon, and without the operation. */
export const storeTrouble = (reason: string): string =>
  reason.replace(/: (?:run|start|set) .*$/, "").replace(/, in [\w.]+$/, "")

/** The number of the schema that was found, where it is not this version's. */
export const schemaFound = (reason: string): number | undefined => {
  if (/ does not exist: /.test(reason)) return 0
  const found = /\((\d+), (?:known|needed) \d+\)/.exec(reason)?.[1]
  return found === undefined ? undefined : Number(found)
}

export const isOlder = (reason: string): boolean => / older schema /.test(reason)
