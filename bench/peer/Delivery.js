/** The background: ships the spool in batches, and files reports one a second. */

const batchDelay = 1_000
const batchSize = 200
const writeSpacing = 1_000

export const startDelivery = (store, upstreams) => {
  let stopped = false
  let wake = () => {}
  const sleep = (millis) => new Promise((resolve) => setTimeout(resolve, millis).unref())
  const woken = () =>
    Promise.race([
      sleep(1_500),
      new Promise((resolve) => {
        wake = resolve
      })
    ])

  const ship = async () => {
    while (!stopped) {
      const records = store.waitingRecords(batchSize)
      if (records.length === 0) {
        await woken()
        await sleep(batchDelay)
        continue
      }
      try {
        await upstreams.writeRecords(records)
        await store.recordShipped(records)
      } catch {
        await sleep(5_000)
      }
      if (records.length < batchSize) await sleep(batchDelay)
    }
  }

  const file = async () => {
    while (!stopped) {
      const report = store.dueReport()
      if (report !== undefined) {
        try {
          await store.markSending(report.delivery)
          const issue = await upstreams.fileIssue({
            title: JSON.parse(report.content).message.slice(0, 80),
            body: `${report.content}\n\n<!-- ${report.marker} -->`
          })
          await store.recordFiled(report.delivery, report.id, issue)
        } catch (error) {
          await store.recordNotFiled(report.delivery, error.code)
        }
      }
      await sleep(writeSpacing)
    }
  }

  void ship()
  void file()
  return {
    wakeUp: () => wake(),
    stop: async () => {
      stopped = true
      wake()
    }
  }
}
