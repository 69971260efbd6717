/** "musb": marks a SQLite file as ours. */
export const applicationId = 0x6d757362

/** Reaches the disk although it changes nothing: SQLite leaves out an UPDATE that does not. */
export const writeMark = `PRAGMA application_id = ${applicationId}`
