/** The site of a network: a /48 of IPv6, because one customer may have a whole /48 with its 65,536 networks; an IPv4 address itself. */
export const siteOf = (network: string): string =>
  network.includes(":") ? network.split(":", 3).join(":") : network
