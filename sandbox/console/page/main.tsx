/** The console's page. */
import { render } from "preact"
import "./style.css"

render(<h1>music-backend sandbox</h1>, document.body)
