import { runMain } from "./layers/process/ProcessSignals.ts"
import { serve } from "./ServerProcess.ts"

runMain(serve, { disableErrorReporting: true, disablePrettyLogger: true })
