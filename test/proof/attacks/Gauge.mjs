// Loaded into the attacked server before its program: answers the parent with what the process holds. Needs --expose-gc.
import { readdirSync } from "node:fs"

process.on("message", () => {
  globalThis.gc?.()
  process.send?.({ heap: process.memoryUsage().heapUsed, descriptors: readdirSync("/proc/self/fd").length })
})
// Ends with its parent, and is not kept running by the channel to it.
process.on("disconnect", () => process.kill(process.pid, "SIGKILL"))
process.channel?.unref()
