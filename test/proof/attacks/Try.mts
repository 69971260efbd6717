import { playIdentity } from "./Identity.ts"
const t = performance.now()
const broken = await playIdentity(Number(process.argv[2] ?? 1), Number(process.argv[3] ?? 200), (n) =>
  new RegExp(process.argv[4] ?? ".").test(n)
)
console.log(
  broken.length,
  broken.slice(0, 20).map((x) => x.slice(0, 900)),
  performance.now() - t
)
process.exit(0)
