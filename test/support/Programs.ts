/** Programs of the system that slow tests need. `.ci/run` installs them. */
import { spawnSync } from "node:child_process"

/** Throws, with what to install, when the program cannot be run: a test that needs it fails and is never left out. */
export const requireProgram = (program: string, debianPackage = program): void => {
  const env = { PATH: `${process.env.PATH}:/usr/sbin:/sbin` }
  if (spawnSync("sh", ["-c", `command -v ${program}`], { env }).status !== 0)
    throw new Error(
      `${program} is not installed: apt-get install -y --no-install-recommends ${debianPackage}`
    )
}
