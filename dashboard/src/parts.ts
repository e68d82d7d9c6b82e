// Parts that all panels are made of.

import { h } from "./dom";
import * as format from "./format";

export type Node_ = HTMLElement;

export function section(title: string, ...content: (Node_ | null)[]): HTMLElement {
  return h("section", { "data-key": title }, h("h3", {}, title), ...content);
}

export function table(headings: string[], rows: Node_[], label: string): HTMLElement {
  const heads = headings.map((text, index) => h("th", { scope: "col", class: index ? "n" : "" }, text));
  return h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows));
}

export function more(all: number, shown: number): Node_ | null {
  return all > shown ? h("p", { class: "soft" }, `and ${format.count(all - shown)} more`) : null;
}
