/** Sends the calls of the documentation page, when a sandbox serves it. */
import "./style.css"

document.documentElement.dataset.tryIt = "on"
