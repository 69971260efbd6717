// Runs a bundle with cached compiled code, because compiling dominates a short run. Tells its parent what the process holds, and ends with it.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import Module, { createRequire } from "node:module"
import { dirname } from "node:path"
import { constants, Script } from "node:vm"

const [, , file] = process.argv
const compiled = `${file}.compiled`
const script = new Script(Module.wrap(readFileSync(file, "utf8")), {
  filename: file,
  importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  ...(existsSync(compiled) ? { cachedData: readFileSync(compiled) } : {})
})
if (process.channel) {
  process.on("message", ({ asks }) => {
    if (asks === "keep") {
      writeFileSync(compiled, script.createCachedData())
      process.exit(0)
    }
    if (asks !== "holdings") return
    globalThis.gc?.()
    const descriptors = readdirSync("/proc/self/fd").length
    process.send({ heap: process.memoryUsage().heapUsed, descriptors })
  })
  process.on("disconnect", () => process.kill(process.pid, "SIGKILL"))
  process.channel.unref()
}
const module = { exports: {} }
script.runInThisContext()(module.exports, createRequire(file), module, file, dirname(file))
