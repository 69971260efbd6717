/** Decodes published text as a person or a program reads it. Independent of the code under test. */

const unseen = /[\p{Default_Ignorable_Code_Point}\p{Cf}]|(?![\t\n])\p{Cc}/gu
const strip = (text: string): string => text.replace(unseen, "")

const characterOf = (digits: string, base: number): string =>
  String.fromCharCode(Number.parseInt(digits, base))
const decodeJson = (text: string): string =>
  text
    .replace(/\\+u([0-9a-f]{4})/gi, (_, digits: string) => characterOf(digits, 16))
    .replace(/\\+u\{0*([0-9a-f]{1,6})\}/gi, (_, digits: string) => characterOf(digits, 16))
    .replace(/\\+[bfnrt]/g, "\n")
    .replace(/\\+(["/\\])/g, "$1")
const decodeLinks = (text: string): string =>
  text
    .replace(/%(?:25)*([0-7][0-9a-f])/gi, (_, digits: string) => characterOf(digits, 16))
    .replace(/%(?:25)*u([0-9a-f]{4})/gi, (_, digits: string) => characterOf(digits, 16))
    .replace(/&#x0*([0-9a-f]{1,4});/gi, (_, digits: string) => characterOf(digits, 16))
    .replace(/&#0*(\d{1,5});/g, (_, digits: string) => characterOf(digits, 10))
    .replace(/&colon;/g, ":")
    .replace(
      /&(?:lrm|rlm|NoBreak|InvisibleTimes|ApplyFunction|InvisibleComma|zwn?j|ZeroWidthSpace|shy);/g,
      ""
    )
    .normalize("NFKC")

/** The visible text, the text with JSON decoded, and with links decoded as well. */
export const readingsOf = (text: string): ReadonlyArray<string> => {
  const shown = strip(text)
  const decoded = strip(decodeJson(shown))
  return [shown, decoded, strip(decodeLinks(decoded))]
}

/** True when any reading names the actor. A longer handle is another actor. */
export const names = (text: string, publicId: string): boolean =>
  readingsOf(text).some((reading) => new RegExp(`${publicId}(?![a-z0-9])`, "i").test(reading))

export const shows = (text: string, secret: string): boolean =>
  readingsOf(text).some((reading) => reading.includes(secret))
