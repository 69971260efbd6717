import { runMain } from "./layers/process/RunMain.ts"
import { serve } from "./ServerProcess.ts"

runMain(serve)
