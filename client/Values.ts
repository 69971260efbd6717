/** Small functions on values of any kind. */
export const isText = (value: unknown): value is string => typeof value === "string"
export const isNumber = (value: unknown): value is number => Number.isFinite(value)
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Programs without a type checker may pass null for what they leave out. */
export const isGiven = <A>(value: A | null | undefined): value is A => value !== undefined && value !== null

type Present<A> = { readonly [Name in keyof A as undefined extends A[Name] ? never : Name]: A[Name] } & {
  readonly [Name in keyof A as undefined extends A[Name] ? Name : never]?: Exclude<A[Name], undefined>
}

/** The members that are not undefined. */
export const present = <A extends object>(members: A): Present<A> =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as Present<A>

/** What a function returns; undefined when it throws. */
export const tried = <A>(run: () => A): A | undefined => {
  try {
    return run()
  } catch {
    return undefined
  }
}

/** A JSON value as it is now, whatever the program changes later. What is no JSON stays itself: the composing of the request refuses it. */
export const copied = <A>(value: A): A => tried((): A => JSON.parse(JSON.stringify(value))) ?? value

export const ignore = (): undefined => undefined

/** A promise that is resolved from outside. */
export const deferred = (): { readonly promise: Promise<void>; readonly resolve: () => void } => {
  let resolve: () => void = ignore
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve: () => resolve() }
}
