/** "musb": marks a SQLite file as a database of this program. */
export const applicationId = 0x6d757362

/** Writes to the disk without changing anything; SQLite skips an UPDATE that changes nothing. */
export const writeMark = `PRAGMA application_id = ${applicationId}`
