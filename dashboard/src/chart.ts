// Small charts over the time window.

import type { Point } from "./api";
import { h, s } from "./dom";
import * as format from "./format";

export interface Span { from: number; to: number; slot: number }

interface Series { name: string; class: string; of: (point: Point) => number | null; area?: boolean }

const WIDTH = 320;
const HEIGHT = 64;

/** The next value of 1, 2, 5, 10, … */
function ceiling(value: number): number {
  if (value <= 0) return 1;
  const base = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((factor) => factor * base >= value * 0.999) ?? 10) * base;
}

/** A chart with its title, its newest values and its range. */
export function chart(title: string, points: Point[], span: Span, series: Series[], text: (value: number | null) => string): HTMLElement {
  const highest = ceiling(Math.max(0, ...points.flatMap((point) => series.map((one) => one.of(point) ?? 0))));
  const x = (at: number) => (((at - span.from) / (span.to - span.from)) * WIDTH).toFixed(1);
  const y = (value: number) => (HEIGHT - 2 - (value / highest) * (HEIGHT - 8)).toFixed(1);
  const drawn = series.flatMap((one) => parts(points, one, span).map((part) => {
    const line = part.map((point, index) => `${index ? "L" : "M"}${x(middle(point, span))} ${y(one.of(point) ?? 0)}`).join("");
    const [first, last] = [part[0]!, part[part.length - 1]!];
    const under = one.area ? s("path", { class: `area ${one.class}`, d: `${line}L${x(middle(last, span))} ${HEIGHT - 2}L${x(middle(first, span))} ${HEIGHT - 2}z` }) : null;
    return s("g", {}, under, s("path", { class: `stroke ${one.class}`, d: part.length === 1 ? `${line}h1` : line }));
  }));
  const newest = points[points.length - 1];
  const key = series.map((one) => h("span", { class: one.class }, h("i"), `${one.name} `, h("b", {}, newest ? text(one.of(newest)) : "–")));
  return h("figure", { class: "chart" },
    h("figcaption", {}, h("strong", {}, title), ...key),
    h("div", { class: "plot" },
      s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title} from ${format.clock(span.from)} to ${format.clock(span.to)}, at most ${text(highest)}` },
        s("path", { class: "grid", d: `M0 ${y(highest)}H${WIDTH}M0 ${y(highest / 2)}H${WIDTH}M0 ${HEIGHT - 2}H${WIDTH}` }), ...drawn),
      h("span", { class: "most" }, text(highest))),
    h("div", { class: "axis" }, h("span", {}, format.clock(span.from)), h("span", {}, format.clock(span.to))));
}

export const middle = (point: Point, span: Span) => Math.min(span.to, point.at + span.slot / 2);

/** Runs of points that have a value and no gap between them. */
export function parts(points: Point[], series: Pick<Series, "of">, span: Span): Point[][] {
  const runs: Point[][] = [];
  let before: Point | undefined;
  for (const point of points) {
    if (series.of(point) === null) {
      before = undefined;
      continue;
    }
    if (before && point.at - before.at <= span.slot * 1.5) runs[runs.length - 1]!.push(point);
    else runs.push([point]);
    before = point;
  }
  return runs;
}

export const requests: Series[] = [
  { name: "all", class: "all", of: (point) => point.requests_per_second, area: true },
  { name: "failed", class: "failed", of: (point) => point.failures_per_second, area: true },
];
export const latencies: Series[] = [
  { name: "p99", class: "p99", of: (point) => point.p99_milliseconds },
  { name: "p50", class: "p50", of: (point) => point.p50_milliseconds },
];
