import { runMain } from "./layers/process/Process.ts"
import { serve } from "./ServerProcess.ts"

runMain(serve)
