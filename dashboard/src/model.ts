// From the answer of the API to what is drawn: trouble, collapsed namespaces, search. Pure.

import type { ApiEdge, ApiNode, Figures, Graph, MutualTls, Policy } from "./api";
import * as format from "./format";

export type Health = "good" | "warn" | "bad" | "idle";

/** Requests that succeed less often than this are trouble. */
const SUCCESS_BAD = 0.99;
const SUCCESS_WARN = 0.999;
/** More workloads than this are drawn as namespaces at first. */
export const WORKLOADS_MAX = { wide: 80, narrow: 12 };

export interface Node extends ApiNode {
  /** Workloads that this node stands for, where it is a namespace. */
  workloads: number;
  health: Health;
  /** What is wrong, in words. */
  trouble: string[];
  /** Does not match the search or the filter. */
  dim: boolean;
  /** Requests that this node sends. */
  calls_per_second: number;
}

export interface Edge extends Figures {
  key: string;
  from: string;
  to: string;
  mutual_tls: MutualTls;
  denied_per_second: number;
  policy: Policy;
  /** Edges between workloads that this edge stands for. */
  parts: number;
  health: Health;
  trouble: string[];
  dim: boolean;
}

export interface Choice {
  search: string;
  trouble: boolean;
  outside: boolean;
  /** Namespaces that the person opened or closed; others follow `fold`. */
  folded: Map<string, boolean>;
  fold: boolean;
}

export interface Model {
  nodes: Map<string, Node>;
  edges: Edge[];
  /** All workloads and edges, whatever is drawn. */
  workloads: Node[];
  calls: Edge[];
  /** Edges and workloads in trouble, the worst first; a workload whose callers are listed with the same failures is not listed. */
  troubles: (Node | Edge)[];
  outside: number;
}

const isOutside = (node: { kind: string }) => node.kind === "outside";

function worse(a: Health, b: Health): Health {
  const order: Health[] = ["idle", "good", "warn", "bad"];
  return order[Math.max(order.indexOf(a), order.indexOf(b))] ?? "good";
}

function ofSuccess(figures: Figures): Health {
  if (figures.success_rate === null) return figures.connections_open > 0 || figures.bytes_per_second > 0 ? "good" : "idle";
  if (figures.success_rate < SUCCESS_BAD) return "bad";
  return figures.success_rate < SUCCESS_WARN ? "warn" : "good";
}

function failing(figures: Figures): string[] {
  const { success_rate: share } = figures;
  return share !== null && share < SUCCESS_WARN ? [`${format.percent(share)} of requests succeed`] : [];
}

function node(raw: ApiNode): Node {
  const trouble = failing(raw);
  let health = ofSuccess(raw);
  if (raw.ready < raw.pods) {
    trouble.push(`${raw.ready} of ${format.plural(raw.pods, "pod")} ready`);
    health = worse(health, raw.ready === 0 ? "bad" : "warn");
  }
  return { ...raw, workloads: 1, health, trouble, dim: false, calls_per_second: 0 };
}

function edge(raw: ApiEdge, nodes: Node[]): Edge {
  const [from, to] = [nodes[raw.from]!, nodes[raw.to]!];
  const trouble = failing(raw);
  let health = ofSuccess(raw);
  if (raw.denied_per_second > 0) {
    trouble.push(`${format.rate(raw.denied_per_second)} denied by policy`);
    health = worse(health, "warn");
  }
  const inside = from.meshed > 0 && to.meshed > 0;
  if (inside && (raw.mutual_tls === "no" || raw.mutual_tls === "mixed")) {
    trouble.push(raw.mutual_tls === "no" ? "plain text" : "partly plain text");
    health = worse(health, "warn");
  }
  return { ...raw, key: `${from.id}>${to.id}`, from: from.id, to: to.id, parts: 1, health, trouble, dim: false };
}

/** Sums of figures: rates add, shares and latencies are weighted by requests, which is exact for shares and a guide for latencies. */
function add(sum: Figures, more: Figures): void {
  const [a, b] = [sum.requests_per_second, more.requests_per_second];
  const mean = (x: number | null, y: number | null) => {
    if (x === null || y === null) return x ?? y;
    return a + b > 0 ? (x * a + y * b) / (a + b) : Math.max(x, y);
  };
  sum.success_rate = mean(sum.success_rate, more.success_rate);
  sum.p50_milliseconds = mean(sum.p50_milliseconds, more.p50_milliseconds);
  sum.p99_milliseconds = Math.max(sum.p99_milliseconds ?? 0, more.p99_milliseconds ?? 0) || null;
  sum.requests_per_second += b;
  sum.connections_open += more.connections_open;
  sum.bytes_per_second += more.bytes_per_second;
}

export const namespaceId = (namespace: string) => `${namespace}/namespace/${namespace}`;

export function isFolded(choice: Choice, namespace: string): boolean {
  return namespace !== "" && (choice.folded.get(namespace) ?? choice.fold);
}

/** What is drawn of a graph. */
export function model(graph: Graph, choice: Choice): Model {
  const workloads = graph.nodes.map(node);
  const calls = graph.edges.map((raw) => edge(raw, workloads));
  const byId = new Map(workloads.map((one) => [one.id, one]));
  for (const call of calls) mark(call, byId);
  const nodes = new Map<string, Node>();
  const drawnAs = new Map<string, string>();
  for (const one of workloads) {
    if (isOutside(one) && !choice.outside) continue;
    if (!isFolded(choice, one.namespace)) {
      nodes.set(one.id, one);
      drawnAs.set(one.id, one.id);
      continue;
    }
    const id = namespaceId(one.namespace);
    drawnAs.set(one.id, id);
    const known = nodes.get(id);
    if (!known) {
      nodes.set(id, { ...one, id, kind: "namespace", name: one.namespace, trouble: one.trouble.map((why) => `${one.name}: ${why}`) });
      continue;
    }
    add(known, one);
    known.workloads += 1;
    known.calls_per_second += one.calls_per_second;
    known.pods += one.pods;
    known.ready += one.ready;
    known.meshed += one.meshed;
    known.health = worse(known.health, one.health);
    known.trouble.push(...one.trouble.map((why) => `${one.name}: ${why}`));
  }
  const edges = drawn(calls, drawnAs);
  dim(nodes, edges, workloads, calls, drawnAs, choice);
  const troubles = troubled(workloads, calls);
  const outside = calls.filter((call) => isOutside(byId.get(call.from)!) || isOutside(byId.get(call.to)!)).length;
  return { nodes, edges, workloads, calls, troubles, outside };
}

function troubled(workloads: Node[], calls: Edge[]): (Node | Edge)[] {
  const order: Health[] = ["bad", "warn"];
  const edges = calls.filter(isTrouble);
  const called = new Set(edges.filter((call) => failing(call).length).map((call) => call.to));
  const nodes = workloads.filter((one) => isTrouble(one) && !(called.has(one.id) && one.ready >= one.pods));
  return [...edges, ...nodes].sort((a, b) => order.indexOf(a.health) - order.indexOf(b.health) || b.requests_per_second - a.requests_per_second);
}

export const isTrouble = (one: { health: Health }) => one.health === "bad" || one.health === "warn";

/** A server whose callers fail is marked, although its own proxy may not have seen the requests. */
function mark(call: Edge, nodes: Map<string, Node>): void {
  const server = nodes.get(call.to);
  if (server && server.health === "idle" && call.health !== "idle") server.health = "good";
  if (server && server.health === "good" && server.requests_per_second === 0 && call.health === "bad") server.health = "bad";
  const client = nodes.get(call.from);
  if (!client) return;
  client.calls_per_second += call.requests_per_second;
  if (client.health === "idle" && call.health !== "idle") client.health = "good";
}

function drawn(calls: Edge[], drawnAs: Map<string, string>): Edge[] {
  const edges = new Map<string, Edge>();
  for (const call of calls) {
    const [from, to] = [drawnAs.get(call.from), drawnAs.get(call.to)];
    // Calls within a namespace that is drawn as one node are in its figures.
    if (!from || !to || (from === to && call.from !== call.to)) continue;
    const key = `${from}>${to}`;
    const known = edges.get(key);
    if (!known) {
      edges.set(key, { ...call, key, from, to, trouble: [...call.trouble] });
      continue;
    }
    add(known, call);
    known.parts += 1;
    known.denied_per_second += call.denied_per_second;
    known.health = worse(known.health, call.health);
    known.trouble.push(...call.trouble);
    if (known.policy === null) known.policy = call.policy;
    else if (call.policy !== null && call.policy !== known.policy) known.policy = "mixed";
    if (known.mutual_tls === null) known.mutual_tls = call.mutual_tls;
    else if (call.mutual_tls !== null && call.mutual_tls !== known.mutual_tls) known.mutual_tls = "mixed";
  }
  return [...edges.values()];
}

/** What does not match stays where it is, so that the graph does not jump. */
function dim(nodes: Map<string, Node>, edges: Edge[], workloads: Node[], calls: Edge[], drawnAs: Map<string, string>, choice: Choice): void {
  const search = choice.search.trim().toLowerCase();
  if (!search && !choice.trouble) return;
  const wanted = new Set<string>();
  const matches = (one: Node) => `${one.namespace}/${one.name}`.toLowerCase().includes(search);
  for (const one of workloads) {
    if (matches(one) && (!choice.trouble || isTrouble(one))) wanted.add(drawnAs.get(one.id) ?? "");
  }
  const byId = new Map(workloads.map((one) => [one.id, one]));
  const kept = new Set<string>();
  for (const call of calls) {
    const [from, to] = [byId.get(call.from)!, byId.get(call.to)!];
    if (choice.trouble && !isTrouble(call)) continue;
    if (!matches(from) && !matches(to)) continue;
    kept.add(`${drawnAs.get(call.from)}>${drawnAs.get(call.to)}`);
    if (choice.trouble || !search) [call.from, call.to].forEach((end) => wanted.add(drawnAs.get(end) ?? ""));
  }
  for (const one of nodes.values()) one.dim = !wanted.has(one.id);
  for (const one of edges) one.dim = !kept.has(one.key);
}
