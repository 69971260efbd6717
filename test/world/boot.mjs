// Runs a bundle with cached compiled code, because compiling dominates a short run. Tells its parent what the process holds, and ends with it.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import Module, { createRequire } from "node:module"
import { dirname } from "node:path"
import { queryObjects, setFlagsFromString } from "node:v8"
import { constants, Script } from "node:vm"

// As src/layers/process/Process.ts does later: code that was compiled under other flags is refused.
setFlagsFromString("--heap-growing-percent=60")
const [, , file] = process.argv
const compiled = `${file}.compiled`
// esbuild writes ASCII.
const script = new Script(Module.wrap(readFileSync(file, "latin1")), {
  filename: file,
  importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  ...(existsSync(compiled) ? { cachedData: readFileSync(compiled) } : {})
})
/** Live fibers. The library registers its root fibers under a global name. */
const countFibers = () => {
  const [root] = [...(globalThis["effect/GlobalValue"]?.values() ?? [])].flatMap(({ roots }) => [
    ...(roots ?? [])
  ])
  if (root === undefined) return 0
  // The count is experimental; the warning is no line of the server's log.
  const { emitWarning } = process
  process.emitWarning = () => undefined
  try {
    return queryObjects(root.constructor, { format: "count" })
  } finally {
    process.emitWarning = emitWarning
  }
}
if (process.channel) {
  process.on("message", ({ asks }) => {
    if (asks === "keep") {
      writeFileSync(compiled, script.createCachedData())
      process.exit(0)
    }
    if (asks !== "holdings") return
    globalThis.gc?.()
    const resources = process.getActiveResourcesInfo()
    process.send({
      heap: process.memoryUsage().heapUsed,
      rss: process.memoryUsage.rss(),
      descriptors: readdirSync("/proc/self/fd").length,
      fibers: countFibers(),
      timers: resources.filter((name) => name === "Timeout").length,
      resources: resources.length,
      listeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0)
    })
  })
  process.on("disconnect", () => process.kill(process.pid, "SIGKILL"))
  process.channel.unref()
}
const module = { exports: {} }
script.runInThisContext()(module.exports, createRequire(file), module, file, dirname(file))
