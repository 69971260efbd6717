/** `node --import tsx test/proof/matrix/Publish.ts` writes docs/fault-matrix.md. */
import { writeFileSync } from "node:fs"
import { renderPage } from "./Page.ts"

writeFileSync(new URL("../../../docs/fault-matrix.md", import.meta.url), renderPage())
process.stdout.write("docs/fault-matrix.md written\n")
