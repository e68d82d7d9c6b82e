// Requests of the whole mesh over the window, with what happened.

import type { Graph } from "./api";
import { type Span, middle, parts } from "./chart";
import { h, s } from "./dom";
import * as format from "./format";

const HEIGHT = 40;
const WIDTH = 1000;

export function timeline(graph: Graph, span: Span): HTMLElement[] {
  const highest = Math.max(0.001, ...graph.points.map((point) => point.requests_per_second));
  const x = (at: number) => ((at - span.from) / (span.to - span.from)) * WIDTH;
  const y = (value: number) => HEIGHT - (value / highest) * (HEIGHT - 6);
  const area = (of: (point: (typeof graph.points)[number]) => number) => parts(graph.points, { of }, span).map((run) => {
    const line = run.map((point, index) => `${index ? "L" : "M"}${x(middle(point, span)).toFixed(1)} ${y(of(point)).toFixed(1)}`).join("");
    return `${line}L${x(middle(run[run.length - 1]!, span)).toFixed(1)} ${HEIGHT}L${x(middle(run[0]!, span)).toFixed(1)} ${HEIGHT}z`;
  }).join("");
  const shown = graph.happenings.filter((one) => one.at >= span.from && one.at <= span.to);
  const marks = shown.map((one) => {
    const text = `${format.clock(one.at)} ${one.reason}: ${one.object}: ${one.message}`;
    const mark = h("span", { class: `mark${one.warning ? " warn" : ""}`, title: text, "data-id": one.node || null });
    mark.style.left = `${((x(one.at) / WIDTH) * 100).toFixed(2)}%`;
    return mark;
  });
  const warnings = shown.filter((one) => one.warning).length;
  const label = `Requests of the whole mesh, at most ${format.rate(highest)}; ${format.plural(shown.length, "event")}, ${format.plural(warnings, "warning")}`;
  return [
    h("div", { class: "track" },
      s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
        s("path", { class: "area all", d: area((point) => point.requests_per_second) }), s("path", { class: "area failed", d: area((point) => point.failures_per_second) })) as unknown as HTMLElement,
      h("div", { class: "marks", "aria-hidden": "true" }, ...marks)),
    h("div", { class: "axis" }, h("span", {}, format.clock(span.from)), h("span", { class: "soft" }, `${format.plural(shown.length, "event")} · peak ${format.rate(highest < 0.002 ? 0 : highest)}`), h("span", {}, format.clock(span.to))),
  ];
}
