/** Elements of the page. Text stays text: nothing here parses HTML. */

type Child = Node | string

/** An element with its attributes and children; an attribute that is false is left out. */
export const element = <Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Readonly<Record<string, string | boolean>> = {},
  ...children: ReadonlyArray<Child>
): HTMLElementTagNameMap[Name] => {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes))
    if (value !== false) made.setAttribute(key, value === true ? "" : value)
  made.append(...children)
  return made
}

/** A button that submits nothing. */
export const button = (text: string, run: () => void, attributes = {}): HTMLButtonElement => {
  const made = element("button", { type: "button", ...attributes }, text)
  made.addEventListener("click", run)
  return made
}

/** Code with a copy button; the script of the page serves it. */
export const codeBlock = (text: string): HTMLElement =>
  element(
    "div",
    { class: "code" },
    element("pre", { tabindex: "0" }, element("code", {}, text)),
    element("button", { type: "button", class: "copy" }, "Copy")
  )
