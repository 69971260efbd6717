import type { Sandbox } from "./Run.ts"
import { viewUrls } from "./SimulatedUpstreams.ts"

/** The text that the sandbox prints: the console's address, the others, and the first lines to paste. */
export const guide = ({ base, databasePath, world }: Sandbox, consoleUrl: string): string => {
  const urls = viewUrls(world)
  return `Open ${consoleUrl} to see the whole system on one page, and to try it.
Open ${base}/docs for the API: every call can be sent from its page.

music-backend sandbox: everything runs on loopback, and no data leaves this machine. Ctrl-C stops it and removes its data.

  server          ${base}
  identity (IAM)  ${world.iam.url}
  notifications   ${world.ting.url}
  tables          ${world.tables.url}
  issue tracker   ${world.tracker.url}
  database        ${databasePath}

Paste these commands in this order. They work again after the next start, while the ports are free; --port moves all of them.

  BASE=${base}; IAM=${world.iam.url}; TING=${world.ting.url}

  # mint a token, log in, keep the session
  SLT=$(curl -s -X POST $IAM/_sandbox/slt | sed 's/.*"slt":"\\([^"]*\\)".*/\\1/')
  SESSION=$(curl -s $BASE/api/v1/auth/login -H 'Content-Type: application/json' -H "Idempotency-Key: login-$SLT" -d "{\\"slt\\":\\"$SLT\\"}"); echo $SESSION
  TOKEN=$(echo $SESSION | sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/')
  REFRESH=$(echo $SESSION | sed 's/.*"refresh_token":"\\([^"]*\\)".*/\\1/')

  # show the session
  curl -sw '\\n' $BASE/api/v1/auth/me -H "Authorization: Bearer $TOKEN" -H 'X-Org-ID: acme'

  # send a ting: a retry is replayed
  curl -sw '\\n' $BASE/api/v1/tings -H "Authorization: Bearer $TOKEN" -H 'X-Org-ID: acme' -H 'Content-Type: application/json' -d '{"type":"music.trigger.fired","key":"si:deejay/first","data":{"hello":"world"}}'
  curl -sw '\\n' "$TING/_sandbox/inbox?plane=production&org=acme&for=si:deejay"

  # report a bug: some seconds later the tracker lists its issue
  curl -sw '\\n' $BASE/api/v1/reports -H 'Content-Type: application/json' -H 'Idempotency-Key: report-0000000001' -d '{"message":"Playback stops after a seek near the end of a track."}'
  curl -sw '\\n' '${urls.issues}' -H 'Authorization: Bearer ${world.trackerToken}' -H 'Accept: application/vnd.github+json'

  # log out
  curl -siw '\\n' $BASE/api/v1/auth/logout -H 'Content-Type: application/json' -H "Idempotency-Key: logout-$SLT" -d "{\\"token\\":\\"$REFRESH\\"}"

  # log in with music-client, after npm run pack:client in the clone and npm install <clone>/dist/music-client-*.tgz here
  SLT=$(curl -s -X POST $IAM/_sandbox/slt | sed 's/.*"slt":"\\([^"]*\\)".*/\\1/')
  node --input-type=module -e 'import { createMusicClient } from "music-client"; const [baseUrl, slt] = process.argv.slice(1); console.log(await createMusicClient({ baseUrl, source: "cli", telemetry: true }).login(slt))' $BASE $SLT

Telemetry, webhooks, testing planes, faults and the clock: in the console. The whole scenario: npm run sandbox -- --walk
`
}
