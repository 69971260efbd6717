// Runs a bundle with cached compiled code, because compiling dominates a short run. Tells its parent what the process holds, and ends with it.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import Module, { createRequire } from "node:module"
import { dirname } from "node:path"
import { setFlagsFromString } from "node:v8"
import { constants, Script } from "node:vm"

// As src/layers/process/Lifecycle.ts does later: code that was compiled under other flags is refused.
setFlagsFromString("--heap-growing-percent=60")
const [, , file, mode] = process.argv
const compiled = `${file}.compiled`
// esbuild writes ASCII.
const script = new Script(Module.wrap(readFileSync(file, "latin1")), {
  filename: file,
  importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  ...(existsSync(compiled) ? { cachedData: readFileSync(compiled) } : {})
})
const keep = () => writeFileSync(compiled, script.createCachedData())
if (process.channel) {
  process.on("message", ({ asks }) => {
    if (asks === "keep") {
      keep()
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
if (mode === "compile") {
  keep()
  process.exit(0)
}
