// Runs a bundle with cached compiled code, because compiling dominates a short run. Writes the cache on request.
import { existsSync, readFileSync, writeFileSync } from "node:fs"
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
process.on("message", ({ keepCompiled }) => {
  if (keepCompiled !== true) return
  writeFileSync(compiled, script.createCachedData())
  process.exit(0)
})
const module = { exports: {} }
script.runInThisContext()(module.exports, createRequire(file), module, file, dirname(file))
