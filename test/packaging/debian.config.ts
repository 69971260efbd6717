import { defineConfig } from "vitest/config"

/** `npm run deploy:debian`: downloads a Debian and needs root, so `npm run test:slow` does not run it. */
export default defineConfig({
  test: { include: ["test/packaging/Debian.deploy.ts"], pool: "forks", bail: 1, hookTimeout: 600_000 }
})
