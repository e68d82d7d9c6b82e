// The drawing: cards are buttons, edges are paths below them. An update writes only what changed.

import { byId, h, s } from "./dom";
import * as format from "./format";
import { CARD, LABELS_MAX, type Layout, type Point, layout, path, shape, straight } from "./layout";
import type { Edge, Model, Node } from "./model";

const SCALE_MIN = 0.12;
const SCALE_MAX = 2;
/** A small graph is not blown up, except on very large screens. */
const SCALE_FIT_MAX = { usual: 1.15, large: 1.7 };
const LARGE_PIXELS = 2_000;
/** Room around the graph, in pixels; below it is the legend. */
const MARGIN = 24;
const MARGIN_BELOW = 52;

export type Selected = { kind: "node"; id: string } | { kind: "edge"; from: string; to: string } | null;

interface Card { button: HTMLButtonElement; name: HTMLElement; line: HTMLElement; note: HTMLElement; about: HTMLElement; written: string }
interface Line {
  edge: Edge;
  group: SVGGElement;
  hit: SVGPathElement | null;
  path: SVGPathElement;
  /** Only of edges that had one to show. */
  label: SVGTextElement | null;
  middle: Point;
  written: string;
  route: string;
}

const kindNames: Record<string, string> = {
  deployment: "Deployment", statefulset: "StatefulSet", daemonset: "DaemonSet", replicaset: "ReplicaSet", job: "Job", cronjob: "CronJob",
  pod: "Pod", service: "Service", identity: "Identity", namespace: "Namespace", outside: "Outside the mesh",
};
export const kindName = (kind: string) => kindNames[kind] ?? kind;
export const nodeName = (node: { kind: string; name: string }) =>
  node.kind === "outside" ? (node.name === "clients" ? "Outside clients" : "Outside destinations") : node.name;

/** `12/s · 100 % · 4 ms`, or what else passes. */
export function figuresLine(one: Node | Edge): string {
  if (one.requests_per_second > 0) {
    // A percentile of a namespace would be a guess.
    if ("workloads" in one && one.kind === "namespace") return `${format.rate(one.requests_per_second)} · ${format.percent(one.success_rate)}`;
    return `${format.rate(one.requests_per_second)} · ${format.percent(one.success_rate)} · ${format.latency(one.p99_milliseconds)}`;
  }
  if (one.connections_open > 0) return `${format.count(one.connections_open)} open · ${format.bytes(one.bytes_per_second)}/s`;
  if ("calls_per_second" in one && one.calls_per_second > 0) return `calls ${format.rate(one.calls_per_second)}`;
  return one.bytes_per_second > 0 ? `${format.bytes(one.bytes_per_second)}/s` : "idle";
}

function edgeLabel(edge: Edge): string {
  if (edge.requests_per_second <= 0) return edge.bytes_per_second > 0 ? `${format.bytes(edge.bytes_per_second)}/s` : "";
  const failures = edge.success_rate !== null && edge.success_rate < 0.9995 ? format.percent(edge.success_rate) : format.latency(edge.p99_milliseconds);
  return `${format.rate(edge.requests_per_second)} · ${failures}`;
}

/** From 1.2 to 4 pixels by the order of magnitude. */
function thickness(edge: Edge): number {
  const magnitude = Math.log10(1 + Math.max(edge.requests_per_second, edge.bytes_per_second / 100_000));
  return Math.round(Math.min(4, 1.2 + magnitude * 0.75) * 2) / 2;
}

export class Drawing {
  private readonly frame = byId("graph");
  private readonly world = byId("world");
  private readonly svg = s("svg", { class: "edges" });
  /** Above the cards. */
  private readonly labels = s("svg", { class: "labels", "aria-hidden": "true" });
  private readonly boxes = h("div", { class: "boxes" });
  private readonly cards = new Map<string, Card>();
  private readonly lines = new Map<string, Line>();
  private shape = "";
  private places: Layout = { isTall: false, isInRows: false, nodes: new Map(), routes: new Map(), namespaces: [], width: 0, height: 0 };
  private view = { x: 0, y: 0, scale: 1 };
  /** The person moved the graph: it then stays where it is. */
  private moved = false;
  private model: Model | null = null;
  private selected: Selected = null;
  /** Size of the frame at the last layout. */
  private room = { width: 0, height: 0 };

  constructor(private readonly select: (selected: Selected) => void, private readonly toggle: (namespace: string) => void) {
    this.world.append(this.boxes, this.svg, this.labels);
    this.svg.append(
      s("defs", {}, ...["good", "warn", "bad", "idle"].map((health) =>
        s("marker", { id: `tip-${health}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" },
          s("path", { d: "M0 0.8L7.4 4L0 7.2z", class: `tip ${health}` })))),
    );
    this.listen();
    // A new size is a new fit, unless the person has chosen what to see.
    new ResizeObserver(() => this.resized()).observe(this.frame);
  }

  draw(model: Model, selected: Selected): void {
    this.model = model;
    this.selected = selected;
    const nodes = [...model.nodes.values()];
    const now = shape(nodes, model.edges);
    const isNew = now !== this.shape;
    if (isNew) {
      this.shape = now;
      this.room = { width: this.frame.clientWidth, height: this.frame.clientHeight };
      const wasInRows = this.places.isInRows;
      this.places = layout(nodes, model.edges, this.room);
      // Edges of rows have fewer elements.
      if (wasInRows !== this.places.isInRows) this.clearEdges();
      this.frame.classList.toggle("rows", this.places.isInRows);
    }
    this.drawCards(nodes, isNew);
    this.drawEdges(model.edges, isNew);
    if (isNew) {
      this.drawBoxes();
      if (!this.moved) this.fit();
    }
  }

  /** The whole graph, as large as fits. */
  fit(): void {
    const { clientWidth: width, clientHeight: height } = this.frame;
    if (width === 0 || this.places.width === 0) return;
    const room = { width: width - 2 * MARGIN, height: height - MARGIN - MARGIN_BELOW };
    const scale = Math.min(width >= LARGE_PIXELS ? SCALE_FIT_MAX.large : SCALE_FIT_MAX.usual, room.width / this.places.width, room.height / this.places.height);
    this.view.scale = Math.max(SCALE_MIN, scale);
    this.view.x = (width - this.places.width * this.view.scale) / 2;
    this.view.y = Math.max(MARGIN / 2, MARGIN + (room.height - this.places.height * this.view.scale) / 2);
    this.moved = false;
    this.place();
  }

  zoom(factor: number, x = this.frame.clientWidth / 2, y = this.frame.clientHeight / 2): void {
    const scale = Math.min(SCALE_MAX, Math.max(SCALE_MIN, this.view.scale * factor));
    const ratio = scale / this.view.scale;
    this.view = { x: x - (x - this.view.x) * ratio, y: y - (y - this.view.y) * ratio, scale };
    this.moved = true;
    this.place();
  }

  focus(id: string): void {
    this.cards.get(id)?.button.focus({ preventScroll: true });
  }

  private resized(): void {
    const { clientWidth: width, clientHeight: height } = this.frame;
    // Another direction may fit better now; small changes move nothing.
    const ratio = (a: number, b: number) => Math.max(a, b) / Math.max(1, Math.min(a, b));
    if (this.model && Math.max(ratio(width, this.room.width), ratio(height, this.room.height)) > 1.3) {
      this.shape = "";
      this.draw(this.model, this.selected);
    }
    if (!this.moved) this.fit();
  }

  private place(): void {
    const { x, y, scale } = this.view;
    this.world.style.transform = `translate(${x.toFixed(1)}px,${y.toFixed(1)}px) scale(${scale.toFixed(4)})`;
    this.frame.classList.toggle("far", scale < 0.4);
  }

  private drawCards(nodes: Node[], isNew: boolean): void {
    const gone = new Set(this.cards.keys());
    for (const node of nodes) {
      gone.delete(node.id);
      let card = this.cards.get(node.id);
      if (!card) {
        card = this.card(node);
        this.cards.set(node.id, card);
      }
      if (isNew) {
        const { x, y } = this.places.nodes.get(node.id)!;
        card.button.style.transform = `translate(${x}px,${y}px)`;
        this.world.append(card.button);
      }
      this.write(card, node);
    }
    for (const id of gone) {
      this.cards.get(id)!.button.remove();
      this.cards.delete(id);
    }
  }

  private card(node: Node): Card {
    const [name, line, note, about] = [h("b", {}), h("span", { class: "figures" }), h("span", { class: "note" }), h("span", { class: "hidden" })];
    const button = h("button", { type: "button", class: "card", "data-id": node.id }, h("span", { class: "first" }, name, note), line, about);
    button.style.width = `${CARD.width}px`;
    button.style.height = `${CARD.height}px`;
    return { button, name, line, note, about, written: "" };
  }

  private write(card: Card, node: Node): void {
    const isSelected = this.selected?.kind === "node" && this.selected.id === node.id;
    const note = node.kind === "namespace" ? format.count(node.workloads)
      : node.pods > 0 ? (node.ready < node.pods ? `${node.ready}/${node.pods} ready` : node.pods > 1 ? `${node.pods} pods` : "") : "";
    const line = figuresLine(node);
    const unmeshed = node.meshed < node.pods || node.kind === "outside" || node.kind === "service" || (node.pods === 0 && node.kind !== "namespace");
    const classes = `card ${node.health}${node.dim ? " dim" : ""}${isSelected ? " selected" : ""}${unmeshed ? " unmeshed" : ""} kind-${node.kind}`;
    const about = `${kindName(node.kind)}${node.kind === "namespace" ? ` with ${format.plural(node.workloads, "workload")}` : node.namespace ? ` in ${node.namespace}` : ""}${node.trouble.length ? `; ${node.trouble.slice(0, 3).join("; ")}` : ""}`;
    const written = [classes, nodeName(node), note, line, about].join("\n");
    if (written === card.written) return;
    card.written = written;
    card.button.className = classes;
    card.button.setAttribute("aria-pressed", String(isSelected));
    card.button.title = `${nodeName(node)}, ${about}`;
    card.about.textContent = `, ${about}`;
    card.name.textContent = nodeName(node);
    card.note.textContent = note;
    card.line.textContent = line;
  }

  private drawEdges(edges: Edge[], isNew: boolean): void {
    const gone = new Set(this.lines.keys());
    // Larger graphs have labels only at edges that are selected, pointed at, or that touch what is selected.
    const isSmall = edges.length <= LABELS_MAX;
    for (const edge of edges) {
      gone.delete(edge.key);
      let line = this.lines.get(edge.key);
      if (!line) {
        line = this.line(edge);
        this.lines.set(edge.key, line);
        this.svg.append(line.group);
      }
      line.edge = edge;
      if (isNew || line.route === "") this.routeOf(line, edge);
      const isSelected = this.selected?.kind === "edge" && this.selected.from === edge.from && this.selected.to === edge.to;
      const isTouching = this.selected?.kind === "node" && (this.selected.id === edge.from || this.selected.id === edge.to);
      const isPlain = edge.mutual_tls === "no" || edge.mutual_tls === "mixed";
      const classes = `edge ${edge.health}${edge.dim ? " dim" : ""}${isSelected ? " selected" : ""}${isTouching ? " touching" : ""}${isPlain ? " plain" : ""}`;
      const width = this.places.isInRows ? 1 : thickness(edge);
      const written = `${classes}\n${width}`;
      if (written !== line.written) {
        line.written = written;
        line.group.setAttribute("class", classes);
        line.path.setAttribute("stroke-width", String(width));
        line.path.setAttribute("marker-end", `url(#tip-${edge.health})`);
      }
      // Rows have no room for figures between the cards.
      const isShown = isSmall || isSelected || (isTouching && !this.places.isInRows);
      if (isShown || line.label) this.writeLabel(line, `label ${edge.health}${isShown ? " shown" : ""}${isSelected || isTouching ? " strong" : ""}${edge.dim ? " dim" : ""}`);
    }
    for (const key of gone) {
      const line = this.lines.get(key)!;
      line.group.remove();
      line.label?.remove();
      this.lines.delete(key);
    }
  }

  private clearEdges(): void {
    for (const { group, label } of this.lines.values()) {
      group.remove();
      label?.remove();
    }
    this.lines.clear();
  }

  private line(edge: Edge): Line {
    const line = s("path", { class: "line" });
    // Nobody hits one of many edges that cross, and people who cannot point reach an edge through the tables of its nodes.
    const hit = this.places.isInRows ? null : s("path", { class: "hit" });
    const group = s("g", { "data-from": edge.from, "data-to": edge.to, "aria-hidden": "true" }, hit, line);
    return { edge, group, hit, path: line, label: null, middle: { x: 0, y: 0 }, written: "", route: "" };
  }

  /** The label with these classes and the newest figures; what is pointed at stays so. */
  private writeLabel(line: Line, classes: string): void {
    if (!line.label) {
      line.label = s("text");
      line.label.setAttribute("x", line.middle.x.toFixed(1));
      line.label.setAttribute("y", (line.middle.y + 4).toFixed(1));
      this.labels.append(line.label);
    }
    const all = line.label.classList.contains("near") && !classes.endsWith(" near") ? `${classes} near` : classes;
    if (line.label.getAttribute("class") !== all) line.label.setAttribute("class", all);
    const text = edgeLabel(line.edge);
    if (line.label.textContent !== text) line.label.textContent = text;
  }

  private routeOf(line: Line, edge: Edge): void {
    const route = this.places.routes.get(edge.key) ?? this.direct(edge);
    line.route = path(route.points, this.places.isTall);
    line.middle = route.label;
    line.hit?.setAttribute("d", line.route);
    line.path.setAttribute("d", line.route);
    line.label?.setAttribute("x", route.label.x.toFixed(1));
    line.label?.setAttribute("y", (route.label.y + 4).toFixed(1));
  }

  private direct(edge: Edge): { points: { x: number; y: number }[]; label: { x: number; y: number } } {
    const [a, b] = [this.places.nodes.get(edge.from)!, this.places.nodes.get(edge.to)!];
    if (edge.from !== edge.to) return straight(a, b, this.places.isTall);
    // A workload that calls itself.
    const [x, y] = [a.x + CARD.width, a.y];
    const points = [{ x: x - 40, y }, { x: x - 28, y: y - 16 }, { x: x - 16, y }];
    return { points, label: { x: x - 28, y: y - 22 } };
  }

  private drawBoxes(): void {
    this.boxes.replaceChildren(...this.places.namespaces.map(({ name, box }) => {
      const close = h("button", { type: "button", class: "close", "data-namespace": name, title: `Draw ${name} as one node` }, name);
      const element = h("div", { class: "box" }, close);
      Object.assign(element.style, { left: `${box.x}px`, top: `${box.y}px`, width: `${box.width}px`, height: `${box.height}px` });
      return element;
    }));
    this.svg.setAttribute("width", String(Math.ceil(this.places.width)));
    this.svg.setAttribute("height", String(Math.ceil(this.places.height)));
  }

  private listen(): void {
    this.world.addEventListener("click", (event) => {
      const target = event.target as Element;
      const namespace = target.closest<HTMLElement>("[data-namespace]")?.dataset["namespace"];
      const id = target.closest<HTMLElement>("[data-id]")?.dataset["id"];
      const edge = target.closest<SVGGElement>("g[data-from]");
      if (namespace) this.toggle(namespace);
      else if (id) this.select({ kind: "node", id });
      else if (edge) this.select({ kind: "edge", from: edge.dataset["from"]!, to: edge.dataset["to"]! });
    });
    this.frame.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { left, top } = this.frame.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.03 : 0.0015)), event.clientX - left, event.clientY - top);
    }, { passive: false });
    this.frame.addEventListener("keydown", (event) => this.key(event));
    this.drag();
    // What is pointed at or focused is seen with its neighbours.
    this.svg.addEventListener("pointerover", (event) => this.point((event.target as Element).closest("g")));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    const near = (event: Event) => this.highlight((event.target as Element).closest<HTMLElement>("[data-id]")?.dataset["id"]);
    for (const name of ["pointerover", "focusin"]) this.world.addEventListener(name, near);
    for (const name of ["pointerleave", "focusout"]) this.world.addEventListener(name, () => this.highlight(undefined));
  }

  private point(group: Element | null): void {
    for (const line of this.lines.values()) this.near(line, line.group === group);
  }

  private near(line: Line, isNear: boolean): void {
    if (isNear && !this.places.isInRows) this.writeLabel(line, line.label?.getAttribute("class") ?? `label ${line.edge.health}`);
    line.label?.classList.toggle("near", isNear);
  }

  private highlight(id: string | undefined): void {
    this.frame.classList.toggle("pointed", id !== undefined);
    const near = new Set(id === undefined ? [] : [id]);
    for (const line of this.lines.values()) {
      const { group } = line;
      const isNear = id !== undefined && (group.dataset["from"] === id || group.dataset["to"] === id);
      if (isNear) near.add(group.dataset["from"]!).add(group.dataset["to"]!);
      group.classList.toggle("near", isNear);
      this.near(line, isNear);
    }
    for (const [own, { button }] of this.cards) button.classList.toggle("near", near.has(own));
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 60;
    const moves: Record<string, [number, number]> = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    const move = moves[event.key];
    if (move) {
      this.view.x += move[0];
      this.view.y += move[1];
      this.moved = true;
      this.place();
    } else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }

  private drag(): void {
    const pointers = new Map<number, { x: number; y: number }>();
    let far = 0;
    this.frame.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || (event.target as Element).closest(".zoom,.legend,.empty")) return;
      pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      far = 0;
    });
    this.frame.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const now = { x: event.clientX, y: event.clientY };
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      if (other) {
        const distance = (point: { x: number; y: number }) => Math.hypot(point.x - other.x, point.y - other.y) || 1;
        const { left, top } = this.frame.getBoundingClientRect();
        this.zoom(distance(now) / distance(before), (now.x + other.x) / 2 - left, (now.y + other.y) / 2 - top);
      } else {
        far += Math.hypot(now.x - before.x, now.y - before.y);
        this.view.x += now.x - before.x;
        this.view.y += now.y - before.y;
        this.place();
        // From here on it is not a click.
        if (far > 5) {
          this.moved = true;
          this.frame.setPointerCapture(event.pointerId);
        }
      }
      pointers.set(event.pointerId, now);
    });
    for (const name of ["pointerup", "pointercancel"] as const) this.frame.addEventListener(name, (event) => pointers.delete(event.pointerId));
  }
}
