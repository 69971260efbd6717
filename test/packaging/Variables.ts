import { fileVariableOf } from "../../src/layers/settings/SecretFile.ts"
import { settingEntries } from "../../src/layers/settings/SettingsTable.ts"

const known = new Set(
  settingEntries.flatMap(({ name, secret }) => (secret === true ? [name, fileVariableOf(name)] : [name]))
)

/** The variables that the server does not read; only those of a secret have a form with `_FILE`. */
export const unknownVariables = (names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.filter((name) => !known.has(name))
