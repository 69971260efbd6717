/** Why a connection to another system was not made, in words, from the error's code. */

export interface ConnectProblem {
  readonly reason: string
  /** The next step for an operator, where the code shows one. */
  readonly advice?: string
}

/** Codes of OpenSSL and Node. */
const certificateProblems: ReadonlyArray<readonly [codes: RegExp, reason: string, advice: string]> = [
  [
    /SELF_SIGNED|^UNABLE_TO_|CERT_UNTRUSTED/,
    "certificate is not trusted",
    "name the file with the certificate of its authority in NODE_EXTRA_CA_CERTS, and start the program again"
  ],
  [
    /CERT_HAS_EXPIRED|CERT_NOT_YET_VALID/,
    "certificate is not valid now",
    "renew the certificate, or set the clock of this machine"
  ],
  [/ALTNAME_INVALID/, "certificate is for another name", "use the name that the certificate holds"]
]

/** By the status with which the proxy refuses, or the error of the connection to it. */
const proxyProblems: typeof certificateProblems = [
  [/^407$/, "refuses its credentials", "correct the user and the password in HTTPS_PROXY"],
  [/^\d+$/, "refuses the connection", "allow the address at the proxy, or name its host in NO_PROXY"],
  [/^/, "cannot be reached", "correct HTTPS_PROXY, or name the host in NO_PROXY"]
]

/** `code` as `Connections` and the system give it. */
export const describeConnectError = (code: string): ConnectProblem => {
  const [, ofProxy] = /^PROXY_(.+)$/.exec(code) ?? []
  const found = ofProxy ?? code
  const fits = ([codes]: (typeof certificateProblems)[number]) => codes.test(found)
  const certificate = certificateProblems.find(fits)
  const problem = certificate ?? (ofProxy === undefined ? undefined : proxyProblems.find(fits))
  if (problem === undefined) return { reason: code }
  const [, reason, advice] = problem
  const owner = ofProxy === undefined ? "its" : certificate === undefined ? "the proxy" : "the proxy's"
  return { reason: `${owner} ${reason} (${found})`, advice }
}
