/** Why a connection to another system was not made, in words, from the error's code. */

export interface ConnectProblem {
  readonly reason: string
  /** The next step for an operator, where the code shows one. */
  readonly advice?: string
}

const certificate = {
  untrusted: {
    reason: "certificate is not trusted",
    advice:
      "name the file with the certificate of its authority in NODE_EXTRA_CA_CERTS, and start the program again"
  },
  expired: {
    reason: "certificate is not valid now",
    advice: "renew the certificate, or set the clock of this machine"
  },
  otherName: {
    reason: "certificate is for another name",
    advice: "use the name that the certificate holds"
  }
} as const

/** Each reason continues `its` or `the proxy's`. */
const certificateProblems: Readonly<Record<string, ConnectProblem>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: certificate.untrusted,
  SELF_SIGNED_CERT_IN_CHAIN: certificate.untrusted,
  UNABLE_TO_GET_ISSUER_CERT: certificate.untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: certificate.untrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: certificate.untrusted,
  CERT_UNTRUSTED: certificate.untrusted,
  CERT_HAS_EXPIRED: certificate.expired,
  CERT_NOT_YET_VALID: certificate.expired,
  ERR_TLS_CERT_ALTNAME_INVALID: certificate.otherName
}

const proxyProblem = (code: string): ConnectProblem => {
  const ofCertificate = certificateProblems[code]
  if (ofCertificate !== undefined) return { ...ofCertificate, reason: `the proxy's ${ofCertificate.reason}` }
  if (code === "407")
    return {
      reason: "the proxy refuses its credentials",
      advice: "correct the user and the password in HTTPS_PROXY"
    }
  return /^\d+$/.test(code)
    ? {
        reason: "the proxy refuses the connection",
        advice: "allow the address at the proxy, or name its host in NO_PROXY"
      }
    : {
        reason: "the proxy cannot be reached",
        advice: "correct HTTPS_PROXY, or name the host in NO_PROXY"
      }
}

/** `code` as `OutboundProxy` and the system give it. */
export const describeConnectError = (code: string): ConnectProblem => {
  const [, ofProxy] = /^PROXY_(.+)$/.exec(code) ?? []
  if (ofProxy !== undefined) {
    const { reason, ...advice } = proxyProblem(ofProxy)
    return { ...advice, reason: `${reason} (${ofProxy})` }
  }
  const found = certificateProblems[code]
  return found === undefined ? { reason: code } : { ...found, reason: `its ${found.reason} (${code})` }
}
