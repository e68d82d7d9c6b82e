// Elements without a framework: made anew at each update, and only differences reach the page, so that focus and scrolling stay.

type Child = Node | string | null | false | undefined;
type Attributes = Record<string, string | number | boolean | null | undefined>;

const SVG = "http://www.w3.org/2000/svg";

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function s<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag) as SVGElementTagNameMap[K], attributes, children);
}

/** Makes the children of `target` equal to `wanted`, with the elements that are there. */
export function morph(target: Element, wanted: Node[]): void {
  const present = [...target.childNodes];
  wanted.forEach((next, index) => {
    const now = present[index];
    if (!now) target.append(next);
    else if (!same(now, next)) now.replaceWith(next);
    else if (now instanceof Element && next instanceof Element) {
      attributes(now, next);
      morph(now, [...next.childNodes]);
    } else if (now.nodeValue !== next.nodeValue) now.nodeValue = next.nodeValue;
  });
  present.slice(wanted.length).forEach((rest) => rest.remove());
}

function same(now: Node, next: Node): boolean {
  const key = (node: Node) => (node instanceof Element ? node.getAttribute("data-key") : null);
  return now.nodeName === next.nodeName && key(now) === key(next);
}

function attributes(now: Element, next: Element): void {
  for (const { name } of [...now.attributes]) if (!next.hasAttribute(name)) now.removeAttribute(name);
  for (const { name, value } of next.attributes) {
    if (now.getAttribute(name) === value) continue;
    // The page's policy forbids the attribute, not the property.
    if (name === "style") (now as HTMLElement).style.cssText = (next as HTMLElement).style.cssText;
    else now.setAttribute(name, value);
  }
}

export function byId<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found as T;
}
