import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { serve } from "./ServerProcess.ts"

NodeRuntime.runMain(serve, { disableErrorReporting: true, disablePrettyLogger: true })
