/** Secrets in files, as Docker and Kubernetes mount them: `MUSIC_…_FILE` names the file of a secret setting. */
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs"
import * as Either from "effect/Either"
import { errorCode } from "../../services/ErrorCode.ts"

/** The variable that names the file of a secret setting. */
export const fileVariableOf = (name: string): string => `${name}_FILE`

/** Bytes; no secret is longer. */
const maxBytes = 65_536

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "does not exist",
  ENOTDIR: "does not exist",
  ENAMETOOLONG: "does not exist",
  EACCES: "cannot be read by this user",
  EPERM: "cannot be read by this user",
  ELOOP: "is a circle of links"
}

const reasonOf = (error: unknown): string => {
  const code = errorCode(error)
  return reasons[code] ?? `cannot be read (${code})`
}

/**
 * The content without its final line end; on the left the reason, which names neither file nor content: a secret may be in
 * the place of the name. Links are followed. It reads regular files only, because a pipe without a writer would wait forever.
 */
export const readSecretFile = (path: string): Either.Either<string, string> =>
  Either.flatMap(
    Either.try({
      try: () => {
        const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
        try {
          const found = fstatSync(file)
          if (found.isDirectory()) return Either.left("is a folder")
          if (!found.isFile()) return Either.left("is no regular file")
          if (found.size > maxBytes) return Either.left(`is larger than ${maxBytes} bytes`)
          const content = readFileSync(file, "utf8").replace(/\r?\n$/, "")
          return content === "" ? Either.left("is empty") : Either.right(content)
        } finally {
          closeSync(file)
        }
      },
      catch: reasonOf
    }),
    (read) => read
  )
