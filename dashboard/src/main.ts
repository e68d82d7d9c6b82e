// The page: asks, keeps what the person chose, and draws.

import * as api from "./api";
import type { Span } from "./chart";
import { byId, h, morph } from "./dom";
import * as format from "./format";
import { Drawing, type Selected } from "./graph";
import { type Choice, type Model, WORKLOADS_MAX, isFolded, model, namespaceId } from "./model";
import * as panel from "./panel";
import { timeline } from "./timeline";

const WINDOWS: [number, string][] = [[60, "1 min"], [300, "5 min"], [900, "15 min"], [3600, "1 h"]];
const INTERVAL_MILLISECONDS = { machine: 1_000, cluster: 2_500 };
/** A reading that is older is said to be old. */
const STALE_SECONDS = { machine: 6, cluster: 40 };

/** A phone shows fewer cards at a size that can be read. */
const NARROW_PIXELS = 620;

const state = {
  window: 300,
  choice: { search: "", trouble: false, outside: false, folded: new Map(), fold: false } as Choice,
  selected: null as Selected,
  graph: null as api.Graph | null,
  model: null as Model | null,
  node: null as api.NodeDetails | null,
  edge: null as api.EdgeDetails | null,
  requests: null as api.Requests | null,
  edgeAside: null as api.Aside<api.EdgeAside> | null,
  nodeAside: null as api.Aside<api.NodeAside> | null,
  /** The denial that is open, and its explanation. */
  denial: "",
  explanation: null as api.Aside<api.Explanation> | null,
  failed: "",
  /** The person has chosen what is folded. */
  isFoldChosen: false,
};

const drawing = new Drawing(select, toggle);
const side = byId("side");

function span(graph: api.Graph): Span {
  return { from: graph.at - graph.window_seconds, to: graph.at, slot: graph.slot_seconds };
}

async function ask(): Promise<void> {
  try {
    const graph = await api.graph(state.window);
    if (!graph) throw new Error("the dashboard has no graph");
    state.graph = graph;
    state.failed = "";
    if (!state.isFoldChosen) state.choice.fold = graph.nodes.length > (innerWidth < NARROW_PIXELS ? WORKLOADS_MAX.narrow : WORKLOADS_MAX.wide);
    await details();
  } catch (error) {
    // `leno dashboard` has ended, or is busy; what was drawn stays.
    state.failed = error instanceof Error ? error.message : String(error);
  }
  const answered = performance.now();
  draw();
  // For tests: until the browser has painted.
  requestAnimationFrame(() => setTimeout(() => {
    document.body.dataset["updateMilliseconds"] = (performance.now() - answered).toFixed(1);
    if (state.graph) performance.mark("graph drawn");
  }));
}

async function details(): Promise<void> {
  const { selected } = state;
  if (selected?.kind === "node" && !selected.id.includes("/namespace/")) {
    const isWorkload = state.graph?.nodes.some((one) => one.id === selected.id && one.pods > 0);
    [state.node, state.nodeAside] = await Promise.all([api.node(selected.id, state.window), isWorkload ? api.nodeAside(selected.id) : null]);
  }
  if (selected?.kind === "edge" && !`${selected.from}${selected.to}`.includes("/namespace/")) {
    const { from, to } = selected;
    [state.edge, state.requests, state.edgeAside, state.explanation] = await Promise.all(
      [api.edge(from, to, state.window), api.requests(from, to), api.edgeAside(from, to), state.denial ? api.denial(state.denial) : null]);
  }
}

function select(selected: Selected): void {
  const before = JSON.stringify(state.selected);
  state.selected = selected;
  if (JSON.stringify(selected) !== before) {
    state.node = null;
    state.edge = null;
    state.requests = null;
    state.edgeAside = null;
    state.nodeAside = null;
    state.denial = "";
    state.explanation = null;
    side.scrollTop = 0;
    void details().then(draw, draw);
  }
  draw();
}

function toggle(namespace: string): void {
  const isClosed = isFolded(state.choice, namespace);
  state.choice.folded.set(namespace, !isClosed);
  const { selected } = state;
  // What was selected may not be drawn any more.
  if (selected?.kind === "node" && selected.id.startsWith(`${namespace}/`)) state.selected = null;
  if (selected?.kind === "edge") state.selected = null;
  draw();
}

function draw(): void {
  const { graph } = state;
  status();
  if (!graph) return;
  state.model = model(graph, state.choice);
  drawing.draw(state.model, state.selected);
  controls(state.model);
  morph(side, sidePanel(graph, state.model));
  morph(byId("timeline"), timeline(graph, span(graph)));
  empty(graph);
  document.body.dataset["draws"] = String(Number(document.body.dataset["draws"] ?? 0) + 1);
}

function sidePanel(graph: api.Graph, now: Model): HTMLElement[] {
  const { selected } = state;
  if (selected?.kind === "node") {
    const drawn = now.nodes.get(selected.id);
    if (drawn?.kind === "namespace") return panel.namespace(drawn, now);
    const one = now.workloads.find((each) => each.id === selected.id);
    if (one) return panel.node(one, state.node, state.nodeAside, graph, now, span(graph), one.namespace !== "" && !isFolded(state.choice, one.namespace));
  }
  if (selected?.kind === "edge") {
    const call = now.calls.find((each) => each.from === selected.from && each.to === selected.to);
    if (call) return panel.edge(call, state, now, span(graph));
    const drawn = now.edges.find((each) => each.from === selected.from && each.to === selected.to);
    if (drawn) return panel.bundle(drawn, now);
  }
  return panel.overview(graph, now);
}

function controls(now: Model): void {
  morph(byId("windows"), WINDOWS.map(([seconds, text]) => h("button", { type: "button", "data-window": seconds, "aria-pressed": String(seconds === state.window) }, text)));
  const [trouble, outside, fold] = [byId("trouble"), byId("outside"), byId("fold")];
  trouble.setAttribute("aria-pressed", String(state.choice.trouble));
  trouble.classList.toggle("has", now.troubles.length > 0);
  trouble.title = "Show only edges and workloads in trouble";
  trouble.querySelector("b")!.textContent = String(now.troubles.length);
  outside.setAttribute("aria-pressed", String(state.choice.outside));
  outside.title = "Show clients without an identity, such as probes, and destinations outside of the mesh";
  outside.querySelector("b")!.textContent = String(now.outside);
  fold.setAttribute("aria-pressed", String(state.choice.fold));
  fold.title = "Draw each namespace as one node";
}

function status(): void {
  const { graph } = state;
  const line = byId("status");
  const banner = byId("banner");
  const age = graph ? Date.now() / 1000 - graph.at : 0;
  const isOld = graph !== null && age > STALE_SECONDS[graph.home];
  const problem = state.failed ? `No answer from leno dashboard: ${state.failed}. The page shows the last figures; it continues when the command runs again.`
    : graph?.failed ? `The mesh cannot be read: ${graph.failed}. The page shows the figures of ${format.duration(age)} ago.`
    : graph && graph.left_out > 0 ? `The mesh is larger than the dashboard's memory: ${format.plural(graph.left_out, "series", "series")} left out. Restrict it with -n or -l.` : "";
  banner.hidden = !problem;
  if (banner.textContent !== problem) banner.textContent = problem;
  let text = "Waiting for the first reading";
  if (graph) {
    byId("home").textContent = graph.home === "machine" ? "on this machine" : "in the cluster";
    const silent = graph.proxies - graph.proxies_read;
    text = state.failed || graph.failed ? "Not live" : isOld ? `Last reading ${format.duration(age)} ago` : silent > 0 ? `Live · ${format.plural(silent, "proxy", "proxies")} of ${graph.proxies} without an answer` : `Live · ${format.plural(graph.proxies, "proxy", "proxies")}`;
    // Half a minute is within what a window rounds.
    if (graph.covered_seconds < graph.window_seconds - 30) text += ` · ${format.duration(graph.covered_seconds)} of ${format.duration(graph.window_seconds)}`;
    line.className = `status ${state.failed || graph.failed ? "bad" : isOld || silent > 0 ? "warn" : "good"}`;
  }
  if (line.textContent !== text) line.textContent = text;
}

function empty(graph: api.Graph): void {
  const place = byId("empty");
  const isEmpty = !state.model?.nodes.size;
  place.hidden = !isEmpty;
  if (!isEmpty) return;
  morph(place, [
    h("h2", {}, "No workloads here yet"),
    h("p", {}, graph.home === "machine" ? "Pods appear when leno up starts them." : "Pods appear when their namespace is in scope. Label a namespace to add its pods to the mesh:"),
    h("code", {}, graph.home === "machine" ? "leno up -f DIRECTORY" : "kubectl label namespace NAME leno.dev/inject=enabled"),
  ]);
}

function listen(): void {
  const search = byId<HTMLInputElement>("search");
  search.addEventListener("input", () => {
    state.choice.search = search.value;
    draw();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const wanted = search.value.trim().toLowerCase();
    const found = wanted && state.model?.workloads.find((one) => one.name.toLowerCase().startsWith(wanted)) || state.model?.workloads.find((one) => `${one.namespace}/${one.name}`.toLowerCase().includes(wanted));
    if (wanted && found) show(found.id, found.namespace);
  });
  byId("windows").addEventListener("click", (event) => {
    const seconds = Number((event.target as HTMLElement).dataset["window"]);
    if (!seconds) return;
    state.window = seconds;
    void ask();
  });
  const flip = (id: string, change: () => void) => byId(id).addEventListener("click", () => {
    change();
    draw();
  });
  flip("trouble", () => (state.choice.trouble = !state.choice.trouble));
  flip("outside", () => (state.choice.outside = !state.choice.outside));
  flip("fold", () => {
    state.choice.fold = !state.choice.fold;
    state.choice.folded.clear();
    state.isFoldChosen = true;
  });
  byId("closer").addEventListener("click", () => drawing.zoom(1.25));
  byId("farther").addEventListener("click", () => drawing.zoom(0.8));
  byId("fit").addEventListener("click", () => drawing.fit());
  for (const place of [side, byId("timeline")]) place.addEventListener("click", follow);
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target instanceof HTMLInputElement;
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape") {
      if (isTyping && search.value) {
        search.value = "";
        state.choice.search = "";
        draw();
      } else close();
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) void ask();
  });
}

/** Buttons of the panels. */
function follow(event: Event): void {
  const data = (event.target as Element).closest<HTMLElement>("[data-id],[data-from],[data-close],[data-namespace],[data-denial]")?.dataset;
  if (!data) return;
  if (data["close"]) close();
  else if (data["denial"]) explain(data["denial"]);
  else if (data["namespace"]) toggle(data["namespace"]);
  else if (data["from"] && data["to"]) select({ kind: "edge", from: data["from"], to: data["to"] });
  else if (data["id"]) select({ kind: "node", id: data["id"] });
}

/** Opens a denial, or closes it. */
function explain(id: string): void {
  state.denial = state.denial === id ? "" : id;
  state.explanation = null;
  draw();
  if (state.denial) void details().then(draw, draw);
}

function show(id: string, namespace: string): void {
  if (isFolded(state.choice, namespace)) state.choice.folded.set(namespace, false);
  select({ kind: "node", id });
  drawing.focus(id);
}

function close(): void {
  const { selected } = state;
  select(null);
  if (selected?.kind === "node") drawing.focus(state.model?.nodes.has(selected.id) ? selected.id : namespaceId(selected.id.split("/")[0] ?? ""));
}

function legend(): void {
  const items = [["good", "healthy"], ["warn", "below 99.9 %, not ready, or plain text"], ["bad", "below 99 %"], ["idle", "idle"]];
  byId("legend").append(...items.map(([health, text]) => h("li", { class: health }, h("i"), text!)));
}

async function run(): Promise<void> {
  legend();
  listen();
  for (;;) {
    const began = performance.now();
    // A page that nobody sees costs nothing.
    if (!document.hidden || !state.graph) await ask();
    document.body.dataset["ready"] = "true";
    const wait = INTERVAL_MILLISECONDS[state.graph?.home ?? "machine"];
    await new Promise((done) => setTimeout(done, Math.max(wait / 2, wait - (performance.now() - began))));
  }
}

void run();
