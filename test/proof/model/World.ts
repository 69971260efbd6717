/** Two servers on one database, one IAM and Ting, two planes, and four programs on three machines, under one clock. */
import { production } from "../../../sandbox/upstreams/Iam.ts"
import type { StoredSession } from "../../../client/stores/SessionStore.ts"
import { seeded } from "../../durability/Random.ts"
import type { InMemoryRequest, InMemoryResponse } from "../../support/InMemoryServer.ts"
import { makeSimulatedTime } from "../../support/SimulatedTime.ts"
import { start as beginning } from "../../support/UseCaseLayers.ts"
import { type Name, names, type Sequence } from "./Commands.ts"
import { makeFaultPlan } from "./Faults.ts"
import { connectionLost, type Instance, startInstance } from "./Instance.ts"
import { type Holder, makeLaw } from "./Law.ts"
import { type Machine, makeMachine } from "./Machine.ts"
import { type Program, startProgram } from "./Programs.ts"
import { makeUpstreams } from "./Upstreams.ts"

/** Milliseconds from the death of a server to the start of the next one. */
const restart = 1_000
/** Milliseconds of a request on its way to a server, and of its answer. */
const distance = 3

const actors: Readonly<Record<Name, string>> = { A: "si:deejay", B: "si:deejay", C: "si:lyra", D: "c:ana" }

/** The programs of one name die, and others follow them. */
export interface Resident {
  readonly name: Name
  readonly actor: string
  readonly machine: Machine
  program: Program
  isTesting: boolean
  /** By plane: the latest short-lived token, and whether its login ended well. */
  readonly logins: Map<string, { readonly slt: string; readonly key: string | undefined; done: boolean }>
  /** The latest ting key. */
  ting: string | undefined
}

export const makeWorld = (sequence: Pick<Sequence, "budget" | "random">, database: string) => {
  const time = makeSimulatedTime(beginning)
  const random = seeded(sequence.random)
  const plan = makeFaultPlan()
  const law = makeLaw(
    time,
    () => upstreams.iam.controls,
    () => [production, upstreams.seeded.environment.environmentId]
  )
  const upstreams = makeUpstreams(time, random, plan, law)
  const testing = upstreams.seeded.environment
  const old: Array<Instance> = []
  let kills = 0
  let requests = 0

  const start = (server: number): Instance =>
    startInstance({
      name: `server ${server} (${old.length})`,
      time,
      upstreams,
      database,
      callsPerMinute: sequence.budget,
      onKilled: () => {
        kills += 1
        const dead = servers[server]
        if (dead !== undefined) old.push(dead)
        servers[server] = undefined
        time.after(restart, () => {
          servers[server] = start(server)
        })
      }
    })
  const servers: Array<Instance | undefined> = []
  for (const server of [0, 1]) servers[server] = start(server)

  /** Through a balancer, which sends to one server after the other, and to none that is down. */
  const reach =
    (address: string) =>
    async (request: InMemoryRequest): Promise<InMemoryResponse> => {
      requests += 1
      const first = requests % 2
      await time.sleep(distance)
      const server = servers[first] ?? servers[1 - first]
      if (server === undefined) throw connectionLost("ECONNREFUSED")
      const answer = await server.send(address, request)
      if (answer.status === 200 && /\/(?:login|refresh)$/.test(request.path))
        law.checkGrant(JSON.parse(String(request.body)), JSON.parse(answer.text))
      await time.sleep(distance)
      return answer
    }

  const shared = makeMachine()
  const machines: Readonly<Record<Name, Machine>> = {
    A: shared,
    B: shared,
    C: makeMachine(),
    D: makeMachine()
  }

  const programOf = (name: Name, isTesting: boolean): Program =>
    startProgram({
      time,
      machine: machines[name],
      testingKey: isTesting ? testing.musicSecret : null,
      isOtherLanguage: name === "D",
      reach: reach(`192.0.2.${names.indexOf(name) + 1}`)
    })
  const residents = new Map<Name, Resident>(
    names.map((name) => [
      name,
      {
        name,
        actor: actors[name],
        machine: machines[name],
        program: programOf(name, name === "C"),
        isTesting: name === "C",
        logins: new Map(),
        ting: undefined
      }
    ])
  )

  const holders = new Map<string, Holder>()
  const holderOf = ({ isTesting, machine, name }: Resident): Holder => {
    const owner = names.find((other) => machines[other] === machine) ?? name
    const plane = isTesting ? testing.environmentId : production
    const key = `${owner} ${plane}`
    const known = holders.get(key) ?? {
      name: `the machine of ${owner}, ${isTesting ? "testing" : "production"},`,
      plane,
      sessions: new Set<string>()
    }
    holders.set(key, known)
    return known
  }

  const storedOf = ({ isTesting, machine }: Resident): StoredSession | undefined =>
    [...machine.slots.values()].find(
      ({ testing_environment_id }) => (testing_environment_id !== null) === isTesting
    )

  const restartProgram = (resident: Resident): void => {
    resident.program.kill()
    resident.program = programOf(resident.name, resident.isTesting)
  }

  return {
    time,
    plan,
    law,
    upstreams,
    testing,
    servers,
    reach,
    resident: (name: Name): Resident => {
      const found = residents.get(name)
      if (found === undefined) throw new Error(`there is no program ${name}`)
      return found
    },
    residents: [...residents.values()],
    holderOf,
    storedOf,
    restartProgram,
    planeOf: ({ isTesting }: Resident) => (isTesting ? testing.environmentId : production),
    counts: () => ({ ...upstreams.counts(), kills, requests }),
    close: async () => {
      for (const { program } of residents.values()) program.kill()
      for (const server of [...old, ...servers]) if (server !== undefined) await time.complete(server.close())
    }
  }
}

export type World = ReturnType<typeof makeWorld>
