// `npm audit` of what production installs: fails on findings. A registry without the endpoint of advisories, or no network, is a note:
// neither says anything about the packages.
import { spawnSync } from "node:child_process"

const { error, stdout } = spawnSync("npm", ["audit", "--omit=dev", "--json"], {
  encoding: "utf8",
  shell: false
})
if (error !== undefined) {
  process.stderr.write(`npm cannot be started: ${error.message}\n`)
  process.exit(1)
}

const parse = () => {
  try {
    return JSON.parse(stdout)
  } catch {
    return {}
  }
}

const { message, metadata, vulnerabilities = {} } = parse()
const count = metadata?.vulnerabilities?.total
if (count === undefined) {
  process.stdout.write(`Not audited: the registry gives no advisories (${message ?? "no answer"})\n`)
  process.exit(0)
}
for (const { name, range, severity } of Object.values(vulnerabilities))
  process.stdout.write(`${severity}: ${name} ${range}\n`)
process.stdout.write(`${count} known vulnerabilities in what production installs\n`)
process.exit(count === 0 ? 0 : 1)
