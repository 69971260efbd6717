/** The sandbox's clock, which ticks between two states. */
import { useEffect, useState } from "preact/hooks"
import { timeOf, useStore } from "./Store.ts"

/** Milliseconds since the epoch, by the sandbox's clock; renders again each second. */
export const useNow = (): number => {
  const { model } = useStore()
  const [, tick] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), 1_000)
    return () => clearInterval(timer)
  }, [])
  return timeOf(model)
}
