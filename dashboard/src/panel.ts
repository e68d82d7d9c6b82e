// The panel beside the graph: the whole mesh, one workload, or one edge.

import type { Aside, EdgeAside, EdgeDetails, Explanation, Graph, Happening, NodeAside, NodeDetails, Part, Requests } from "./api";
import { type Span, chart, latencies, requests } from "./chart";
import { h } from "./dom";
import * as format from "./format";
import { kindName, nodeName } from "./graph";
import type { Edge, Model, Node } from "./model";
import { type Node_, more, section, table } from "./parts";
import * as policy from "./policy";

const ROWS_MAX = 8;
const PODS_MAX = 20;
const EVENTS_MAX = 40;
const REQUESTS_MAX = 12;
/** A certificate that ends so soon was not renewed. */
const CERTIFICATE_SECONDS_MIN = 3_600;

const order = { bad: 0, warn: 1, good: 2, idle: 3 };

function kpi(name: string, value: string, health = ""): HTMLElement {
  return h("div", { class: `kpi ${health}` }, h("dt", {}, name), h("dd", {}, value));
}

/** A button that selects a node or an edge. */
export function link(text: string, data: Record<string, string>, title = text): HTMLElement {
  return h("button", { type: "button", class: "link", title, ...Object.fromEntries(Object.entries(data).map(([name, value]) => [`data-${name}`, value])) }, text);
}

function figures(one: { requests_per_second: number; success_rate: number | null; p99_milliseconds: number | null; connections_open: number }): Node_[] {
  const failing = one.success_rate !== null && one.success_rate < 0.99 ? "bad" : one.success_rate !== null && one.success_rate < 0.999 ? "warn" : "";
  return [h("td", { class: "n" }, format.rate(one.requests_per_second)), h("td", { class: `n ${failing}` }, format.percent(one.success_rate)), h("td", { class: "n" }, format.latency(one.p99_milliseconds))];
}

function badge(edge: { mutual_tls: Edge["mutual_tls"] }): Node_ {
  const [text, health] = { yes: ["mTLS", "good"], no: ["plain text", "warn"], mixed: ["partly mTLS", "warn"], none: ["–", ""] }[edge.mutual_tls ?? "none"] as [string, string];
  return h("span", { class: `badge ${health}` }, text);
}

/** The whole mesh. */
export function overview(graph: Graph, model: Model): Node_[] {
  const inside = model.calls.filter((call) => !call.from.includes("/outside/") && !call.to.includes("/outside/"));
  const busy = inside.filter((call) => call.mutual_tls !== null);
  const secure = busy.filter((call) => call.mutual_tls === "yes").length;
  const rate = graph.edges.reduce((sum, edge) => sum + edge.requests_per_second, 0);
  const well = graph.edges.reduce((sum, edge) => sum + edge.requests_per_second * (edge.success_rate ?? 0), 0);
  const share = rate > 0 ? Math.min(1, well / rate) : null;
  const workloads = model.workloads.filter((one) => one.pods > 0);
  const meshed = workloads.filter((one) => one.meshed > 0).length;
  const troubled = model.troubles;
  const names = new Map(model.workloads.map((one) => [one.id, one]));
  const calls = inside.filter((call) => call.requests_per_second > 0 || call.bytes_per_second > 0).sort((a, b) => b.requests_per_second - a.requests_per_second);
  return [
    h("h2", { "data-key": "overview" }, "The mesh"),
    h("dl", { class: "kpis" },
      kpi("Requests", format.rate(rate)),
      kpi("Success", format.percent(share), share !== null && share < 0.99 ? "bad" : share !== null && share < 0.999 ? "warn" : ""),
      kpi("Mutual TLS", busy.length ? `${format.count(secure)} of ${format.plural(busy.length, "edge")}` : "–", secure < busy.length ? "warn" : ""),
      kpi("Workloads", meshed < workloads.length ? `${format.count(meshed)} of ${format.count(workloads.length)} in mesh` : format.count(workloads.length))),
    troubled.length
      ? section("Needs attention", h("ul", { class: "troubles" }, ...troubled.slice(0, ROWS_MAX).map((one) => trouble(one, names))), more(troubled.length, ROWS_MAX))
      : section("Needs attention", h("p", { class: "well" }, graph.readings < 2 ? "Figures appear after the second reading." : "Nothing: no request fails, all pods are ready, and traffic in the mesh uses mutual TLS.")),
    calls.length
      ? section("Busiest edges", table(["Client → server", "Rate", "Success", "p99"], calls.slice(0, ROWS_MAX).map((call) => callRow(call, names)), "Busiest edges"), more(calls.length, ROWS_MAX))
      : section("Busiest edges", h("p", { class: "soft" }, `No traffic between workloads in the last ${format.duration(graph.window_seconds)}.`)),
    events(graph.happenings, graph.at, ""),
  ].filter((part): part is Node_ => part !== null);
}

const between = (edge: Edge, names: Map<string, Node>) => `${nameOf(edge.from, names)} → ${nameOf(edge.to, names)}`;
const nameOf = (id: string, names: Map<string, Node>) => {
  const node = names.get(id);
  return node ? nodeName(node) : id;
};

function trouble(one: Edge | Node, names: Map<string, Node>): Node_ {
  const text = "key" in one ? between(one, names) : nodeName(one);
  const data: Record<string, string> = "key" in one ? { from: one.from, to: one.to } : { id: one.id };
  return h("li", { class: one.health }, link(text, data), h("span", {}, one.trouble.slice(0, 2).join("; ") || "requests to it fail"));
}

function callRow(call: Edge, names: Map<string, Node>): Node_ {
  return h("tr", {}, h("td", {}, link(between(call, names), { from: call.from, to: call.to })), ...figures(call));
}

function events(happenings: Happening[], now: number, node: string): Node_ | null {
  const own = happenings.filter((one) => !node || one.node === node);
  if (node && !own.length) return null;
  const rows = own.slice(-EVENTS_MAX).reverse().map((one) =>
    h("li", { class: one.warning ? "warn" : "" },
      h("time", { datetime: new Date(one.at * 1000).toISOString(), title: `${format.duration(now - one.at)} ago` }, format.clock(one.at)),
      h("div", {}, h("b", {}, one.reason + (one.count > 1 ? ` ×${one.count}` : "")), " ", one.node && !node ? link(one.object, { id: one.node }) : h("span", {}, one.object), h("p", {}, one.message))));
  return section("Events", rows.length ? h("ul", { class: "events" }, ...rows) : h("p", { class: "soft" }, "None since the dashboard started."));
}

function head(title: Node_[], below: (Node_ | string | null)[]): Node_ {
  return h("div", { class: "head" },
    h("div", {}, h("h2", {}, ...title), h("p", { class: "soft" }, ...below)),
    h("button", { type: "button", class: "close", "data-close": "true", "aria-label": "Close the details" }, "×"));
}

/** A namespace that is drawn as one node. */
export function namespace(node: Node, model: Model): Node_[] {
  const own = model.workloads.filter((one) => one.namespace === node.namespace).sort((a, b) => order[a.health] - order[b.health] || b.requests_per_second - a.requests_per_second);
  const rows = own.slice(0, 40).map((one) => h("tr", {}, h("td", {}, link(nodeName(one), { id: one.id })), ...figures(one)));
  return [
    head([h("span", {}, node.name)], [`Namespace with ${format.plural(own.length, "workload")}`]),
    h("p", { class: "actions" }, h("button", { type: "button", "data-namespace": node.namespace }, "Open in the graph")),
    section("Workloads", table(["Workload", "Rate", "Success", "p99"], rows, "Workloads"), more(own.length, 40)),
  ];
}

/** One workload. */
export function node(one: Node, details: NodeDetails | null, aside: Aside<NodeAside> | null, graph: Graph, model: Model, span: Span, isFoldable: boolean): Node_[] {
  const names = new Map(model.workloads.map((each) => [each.id, each]));
  const busy = (a: Edge, b: Edge) => b.requests_per_second - a.requests_per_second || b.bytes_per_second - a.bytes_per_second;
  const clients = model.calls.filter((call) => call.to === one.id).sort(busy);
  const servers = model.calls.filter((call) => call.from === one.id).sort(busy);
  const rows = (calls: Edge[], end: "from" | "to") => calls.slice(0, ROWS_MAX * 2).map((call) =>
    h("tr", {}, h("td", {}, link(nameOf(call[end], names), { from: call.from, to: call.to }), " ", call.mutual_tls === "yes" ? null : badge(call)), ...figures(call)));
  const calls = (title: string, list: Edge[], end: "from" | "to", none: string) =>
    section(title, list.length ? table([end === "from" ? "Client" : "Server", "Rate", "Success", "p99"], rows(list, end), title) : h("p", { class: "soft" }, none), more(list.length, ROWS_MAX * 2));
  return [
    head([h("span", {}, nodeName(one))], [one.kind === "outside" ? "No proxy of this mesh" : `${kindName(one.kind)} in ${one.namespace}`]),
    one.trouble.length ? h("ul", { class: "notes" }, ...one.trouble.map((why) => h("li", { class: one.health }, why))) : h("ul", { class: "notes", hidden: true }),
    ...(details && one.kind !== "outside" && one.kind !== "service" ? golden(details.figures, details.p95_milliseconds, details, span) : []),
    calls("Called by", clients, "from", `No calls in the last ${format.duration(graph.window_seconds)}.`),
    calls("Calls", servers, "to", `No calls in the last ${format.duration(graph.window_seconds)}.`),
    ...(details ? [parts("Routes", details.routes), parts("Services", details.services), pods(details, graph.at), policy.workload(details.rules, aside)] : []),
    events(graph.happenings, graph.at, one.id),
    isFoldable ? h("p", { class: "actions" }, h("button", { type: "button", "data-namespace": one.namespace }, `Draw ${one.namespace} as one node`)) : null,
  ].filter((part): part is Node_ => part !== null);
}

function golden(all: NodeDetails["figures"], p95: number | null, details: { points: NodeDetails["points"]; read_bytes_per_second: number; write_bytes_per_second: number }, span: Span): Node_[] {
  const failing = all.success_rate !== null && all.success_rate < 0.99 ? "bad" : all.success_rate !== null && all.success_rate < 0.999 ? "warn" : "";
  const hasRequests = details.points.some((point) => point.requests_per_second > 0);
  return [
    h("dl", { class: "kpis" },
      kpi("Requests", format.rate(all.requests_per_second)), kpi("Success", format.percent(all.success_rate), failing),
      kpi("p50", format.latency(all.p50_milliseconds)), kpi("p95", format.latency(p95)), kpi("p99", format.latency(all.p99_milliseconds)),
      kpi("Connections", format.count(all.connections_open)), kpi("Read", `${format.bytes(details.read_bytes_per_second)}/s`), kpi("Written", `${format.bytes(details.write_bytes_per_second)}/s`)),
    ...(hasRequests ? [
      chart("Requests", details.points, span, requests, (value) => format.rate(value ?? 0)),
      chart("Latency", details.points, span, latencies, format.latency),
    ] : []),
  ];
}

function parts(title: string, all: Part[]): Node_ | null {
  // Traffic without a route is the ordinary case and says nothing.
  if (!all.length || (title === "Routes" && all.every((one) => one.name === "default"))) return null;
  const rows = all.slice(0, ROWS_MAX).map((one) => h("tr", {}, h("td", {}, one.name), ...figures(one)));
  return section(title, table([title === "Routes" ? "Route" : "Service", "Rate", "Success", "p99"], rows, title), more(all.length, ROWS_MAX));
}

function pods(details: NodeDetails, now: number): Node_ | null {
  if (!details.pods.length) return null;
  const rows = details.pods.slice(0, PODS_MAX).map((pod) => {
    const left = pod.certificate_expires === null ? null : pod.certificate_expires - now;
    return h("tr", {},
      h("td", {}, pod.name),
      h("td", { class: `state ${pod.ready ? "" : "bad"}` }, pod.ready ? "ready" : "not ready"),
      h("td", { class: `n ${left !== null && left < CERTIFICATE_SECONDS_MIN ? "warn" : ""}` }, pod.meshed ? (left === null ? "no answer" : format.duration(left)) : "no proxy"),
      h("td", { class: "n" }, pod.rss_bytes === null ? "–" : format.bytes(pod.rss_bytes)));
  });
  const identities = [...new Set(details.pods.map((pod) => pod.identity).filter(Boolean))];
  const element = section("Pods",
    h("table", { "aria-label": "Pods" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Pod"), h("th", { scope: "col", class: "state" }, "State"), h("th", { scope: "col", class: "n", title: "Time until the proxy's certificate expires" }, "Certificate"), h("th", { scope: "col", class: "n", title: "Memory of the proxy" }, "Proxy"))), h("tbody", {}, ...rows)),
    more(details.pods.length, PODS_MAX));
  if (identities.length) element.append(h("h3", {}, identities.length > 1 ? "Identities" : "Identity"), ...identities.map((identity) => h("p", { class: "identity" }, h("code", {}, identity))));
  return element;
}

/** What is known of the edge that is selected. */
export interface EdgeKnown {
  edge: EdgeDetails | null;
  requests: Requests | null;
  edgeAside: Aside<EdgeAside> | null;
  denial: string;
  explanation: Aside<Explanation> | null;
}

/** One edge. */
export function edge(one: Edge, known: EdgeKnown, model: Model, span: Span): Node_[] {
  const { edge: details, requests: seen, edgeAside: aside } = known;
  const names = new Map(model.workloads.map((each) => [each.id, each]));
  const title = [link(nameOf(one.from, names), { id: one.from }), h("span", { class: "arrow" }, " → "), link(nameOf(one.to, names), { id: one.to })];
  const tls = { yes: "Both sides prove their identity with mutual TLS.", no: "Plain text: no side proves its identity.", mixed: "A part of the traffic is plain text." };
  return [
    head(title, [badge(one), " ", policy.badge(one.policy), " ", one.mutual_tls ? tls[one.mutual_tls] : "No traffic in this window."]),
    one.trouble.length ? h("ul", { class: "notes" }, ...one.trouble.map((why) => h("li", { class: one.health }, why))) : h("ul", { class: "notes", hidden: true }),
    ...(details ? golden(details.figures, details.p95_milliseconds, details, span) : []),
    ...(details ? [failures(details)] : []),
    ...(details ? policy.edge(details, aside, known.denial, known.explanation) : []),
    ...(seen ? [requestsNow(seen)] : []),
    ...(details ? [policy.retries(details, aside), counts(details)] : []),
  ].filter((part): part is Node_ => part !== null);
}

/** Edges between nodes of which one or both are namespaces. */
export function bundle(one: Edge, model: Model): Node_[] {
  const names = new Map(model.workloads.map((each) => [each.id, each]));
  const isIn = (id: string, end: string) => id === end || (end.includes("/namespace/") && id.startsWith(`${end.split("/")[0]}/`));
  const calls = model.calls.filter((call) => isIn(call.from, one.from) && isIn(call.to, one.to)).sort((a, b) => order[a.health] - order[b.health] || b.requests_per_second - a.requests_per_second);
  const title = (id: string) => h("span", {}, id.includes("/namespace/") ? id.split("/")[0]! : nameOf(id, names));
  return [
    head([title(one.from), h("span", { class: "arrow" }, " → "), title(one.to)], [badge(one), ` ${format.plural(calls.length, "edge")}`]),
    section("Edges", table(["Client → server", "Rate", "Success", "p99"], calls.slice(0, 40).map((call) => callRow(call, names)), "Edges"), more(calls.length, 40)),
  ];
}

function failures(details: EdgeDetails): Node_ {
  if (!details.failures && !details.denied) return section("Failures", h("p", { class: "well" }, details.requests ? "None in this window." : "No requests in this window."));
  const rows = details.reasons.map(([reason, count]) => h("tr", {}, h("td", {}, reason), h("td", { class: "n" }, format.count(count)), h("td", { class: "n" }, format.percent(details.requests ? count / details.requests : null))));
  if (details.denied) rows.push(h("tr", {}, h("td", {}, "denied by policy"), h("td", { class: "n" }, format.count(details.denied)), h("td", { class: "n" }, "–")));
  return section("Failures", table(["Reason", "Requests", "Share"], rows, "Failures by reason"));
}

/** What passes now, the newest first. */
function requestsNow(seen: Requests): Node_ {
  if (seen.failed) return section("Requests now", h("p", { class: "soft" }, seen.failed));
  if (!seen.requests.length) return section("Requests now", h("p", { class: "soft" }, "Waiting for a request."));
  const rows = seen.requests.slice(0, REQUESTS_MAX).map((one) => {
    const code = one.status ? `${one.status}${one.grpc_status ? `/${one.grpc_status}` : ""}` : "–";
    const isFailed = one.status >= 500 || one.status === 0 || (one.grpc_status ?? 0) > 0;
    const notes = [one.reason, one.attempts > 1 ? `${one.attempts} attempts` : "", one.pod && `at ${one.pod}`, one.trace_id && `trace ${one.trace_id}`].filter(Boolean).join(" · ");
    return h("tr", { title: notes },
      h("td", {}, one.at.slice(11, 19)),
      h("td", { class: "path" }, `${one.method} ${one.path}`, one.attempts > 1 ? h("b", {}, ` ×${one.attempts}`) : null),
      h("td", { class: `n ${isFailed ? "bad" : one.status >= 400 ? "warn" : ""}` }, code),
      h("td", { class: "n" }, format.latency(one.total_milliseconds)));
  });
  return section("Requests now", h("table", { class: "requests", "aria-label": "Requests now" },
    h("thead", {}, h("tr", {}, ...["Time", "Request"].map((name) => h("th", { scope: "col" }, name)), ...["Status", "Took"].map((name) => h("th", { scope: "col", class: "n" }, name)))),
    h("tbody", {}, ...rows)));
}

function counts(details: EdgeDetails): Node_ {
  const row = (name: string, value: string) => h("tr", {}, h("td", {}, name), h("td", { class: "n" }, value));
  return section("In this window", h("table", { "aria-label": "Counts" }, h("tbody", {},
    row("Requests", format.count(details.requests)), row("Failed requests", format.count(details.failures)),
    row("Connections opened", format.count(details.connections_opened)))));
}
