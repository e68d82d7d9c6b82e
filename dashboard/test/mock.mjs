// A server with the API of `leno dashboard` and made-up figures, for work on the page and for its tests: `node test/mock.mjs [SIZE] [PORT]`.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" };

/** The same numbers in each run. */
export function random(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}

const shop = {
  edge: ["gateway"],
  shop: ["web", "cart", "checkout", "catalog", "search", "recommend", "currency"],
  orders: ["orders", "payments", "shipping", "email", "ledger"],
  people: ["accounts", "sessions", "profiles"],
  data: ["postgres", "redis", "kafka", "indexer"],
};
const shopCalls = `gateway web 310; gateway accounts 42; web cart 96; web catalog 240; web search 61; web recommend 88; web sessions 310; cart redis 180; cart currency 95
checkout cart 22; web checkout 22; checkout payments 21; checkout orders 21; checkout shipping 20; orders postgres 64; orders email 18; payments ledger 21; ledger postgres 40
catalog postgres 120; search indexer 61; recommend catalog 88; sessions redis 620; accounts postgres 44; accounts profiles 30; profiles postgres 30; orders kafka 21; indexer kafka 4; shipping email 6`;

/** Twenty services with one that fails, one that is not ready, and one that is not in the mesh. */
function twenty() {
  const nodes = Object.entries(shop).flatMap(([namespace, names]) => names.map((name) => {
    const isData = namespace === "data" && name !== "indexer";
    const pods = ["web", "catalog", "gateway"].includes(name) ? 3 : 1;
    const kind = isData ? "statefulset" : "deployment";
    return { id: `${namespace}/${kind}/${name}`, namespace, kind, name, pods, ready: name === "catalog" ? 2 : pods, meshed: name === "kafka" ? 0 : pods };
  }));
  nodes.push({ id: "/outside/clients", namespace: "", kind: "outside", name: "clients", pods: 0, ready: 0, meshed: 0 });
  nodes.sort((a, b) => (a.id < b.id ? -1 : 1));
  const at = (name) => nodes.findIndex((node) => node.name === name);
  const calls = shopCalls.split(/[;\n]/).map((line) => {
    const [from, to, rate] = line.trim().split(" ");
    const success = from === "checkout" && to === "payments" ? 0.943 : from === "web" && to === "recommend" ? 0.9982 : 1;
    const isTcp = ["postgres", "redis", "kafka"].includes(to);
    return { from: at(from), to: at(to), denied: from === "checkout" && to === "payments" ? 1.4 : 0, rate: isTcp ? 0 : Number(rate), bytes: Number(rate) * 900, success, p99: 2 + (Number(rate) % 37), tls: to === "kafka" ? "no" : "yes", open: isTcp ? 8 : 4 };
  });
  calls.push({ from: at("clients"), to: at("gateway"), rate: 350, bytes: 900_000, success: 1, p99: 31, tls: "no", open: 40 });
  return { nodes, calls };
}

/** Many workloads in namespaces; most calls stay in their namespace or go to a few that all use. */
function many(workloads, count) {
  const next = random(7);
  const per = 25;
  const nodes = [];
  for (let index = 0; index < workloads; index += 1) {
    const namespace = `team-${String(Math.floor(index / per)).padStart(2, "0")}`;
    const name = `service-${String(index).padStart(4, "0")}`;
    nodes.push({ id: `${namespace}/deployment/${name}`, namespace, kind: "deployment", name, pods: 2, ready: next() < 0.004 ? 1 : 2, meshed: 2 });
  }
  const calls = new Map();
  while (calls.size < count) {
    const from = Math.floor(next() * workloads);
    const base = Math.floor(from / per) * per;
    const to = next() < 0.7 ? base + Math.floor(next() * per) : Math.floor(next() ** 3 * workloads);
    if (from === to || to >= workloads) continue;
    const rate = Math.round(next() ** 3 * 4000) / 10;
    calls.set(`${from}>${to}`, { from, to, rate, bytes: rate * 900, success: next() < 0.004 ? 0.97 : 1, p99: 1 + next() * 40, tls: "yes", open: 2 });
  }
  return { nodes, calls: [...calls.values()] };
}

const figures = (rate, success, p99, open, bytes) => ({
  requests_per_second: Math.round(rate * 1000) / 1000, success_rate: rate > 0 ? success : null,
  p50_milliseconds: rate > 0 ? Math.round(p99 * 300) / 1000 : null, p99_milliseconds: rate > 0 ? Math.round(p99 * 1000) / 1000 : null,
  connections_open: open, bytes_per_second: bytes,
});

export function world(size) {
  if (size === "empty") return { nodes: [], calls: [] };
  return size === "large" ? many(1_000, 5_000) : size === "all" ? many(220, 700) : twenty();
}

function points(at, window, rate, success, p99) {
  const slot = window <= 300 ? 10 : 60;
  const first = Math.floor((at - window) / slot) * slot + slot;
  const rows = [];
  for (let time = first; time <= at; time += slot) {
    const wave = 1 + 0.18 * Math.sin(time / 47) + 0.07 * Math.sin(time / 13);
    const trouble = success < 1 && time > at - window * 0.4;
    const all = rate * wave;
    rows.push({ at: time, requests_per_second: all, failures_per_second: trouble ? all * (1 - success) * 2.2 : 0, p50_milliseconds: rate ? p99 * 0.3 * wave : null, p99_milliseconds: rate ? p99 * wave * (trouble ? 1.6 : 1) : null });
  }
  return rows;
}

/** The answer at a path. */
export function answer(state, url, at) {
  const window = Number(url.searchParams.get("window") ?? 300);
  const drift = 1 + 0.1 * Math.sin(at / 5);
  const { nodes, calls } = state;
  if (url.pathname === "/api/graph") {
    const inbound = nodes.map(() => ({ rate: 0, well: 0, p99: 0, open: 0, bytes: 0 }));
    for (const call of calls) {
      const sum = inbound[call.to];
      sum.rate += call.rate * drift;
      sum.well += call.rate * drift * call.success;
      sum.p99 = Math.max(sum.p99, call.p99);
      sum.open += call.open;
      sum.bytes += call.bytes;
    }
    const rate = calls.reduce((sum, call) => sum + call.rate, 0);
    return {
      home: "machine", at, window_seconds: window, covered_seconds: window, slot_seconds: window <= 300 ? 10 : 60, readings: 100, failed: state.failed ?? null, left_out: 0,
      proxies: nodes.reduce((sum, node) => sum + node.meshed, 0), proxies_read: nodes.reduce((sum, node) => sum + node.meshed, 0),
      nodes: nodes.map((node, index) => ({ ...node, ...figures(node.kind === "outside" ? 0 : inbound[index].rate, inbound[index].well / (inbound[index].rate || 1), inbound[index].p99 * 0.8, inbound[index].open, inbound[index].bytes) })),
      edges: calls.map((call) => ({ from: call.from, to: call.to, mutual_tls: call.tls, denied_per_second: call.denied ?? 0, policy: call.tls === "no" ? null : call.denied ? "mixed" : "allowed", ...figures(call.rate * drift, call.success, call.p99, call.open, call.bytes) })),
      points: points(at, window, rate, 0.998, 20),
      happenings: nodes.length ? [
        { at: Math.floor(at - window * 0.8), warning: false, reason: "ManifestsChanged", node: "", object: "Manifests", message: "an edit is in force", count: 1 },
        { at: Math.floor(at - window * 0.4), warning: true, reason: "NotReady", node: nodes[0].id, object: `Pod ${nodes[0].namespace}/${nodes[0].name}-7d9c5b6f4-abcde`, message: "the pod is not ready any more", count: 1 },
        { at: Math.floor(at - window * 0.35), warning: true, reason: "BackOff", node: nodes[0].id, object: `Pod ${nodes[0].namespace}/${nodes[0].name}-7d9c5b6f4-abcde`, message: "container app ended with exit code 1; the next start is in 10 s", count: 3 },
      ] : [],
    };
  }
  if (url.pathname === "/api/node") {
    const index = nodes.findIndex((node) => node.id === url.searchParams.get("id"));
    if (index < 0) return null;
    const node = nodes[index];
    const own = calls.filter((call) => call.to === index);
    const rate = own.reduce((sum, call) => sum + call.rate, 0);
    const p99 = Math.max(1, ...own.map((call) => call.p99));
    const success = Math.min(1, ...own.map((call) => call.success));
    return {
      figures: figures(rate, success, p99, 12, 1000), p95_milliseconds: p99 * 0.7, read_bytes_per_second: rate * 400, write_bytes_per_second: rate * 2100,
      pods: Array.from({ length: node.pods }, (_, at_) => ({ name: `${node.name}-7d9c5b6f4-abcd${at_}`, ready: at_ < node.ready, meshed: node.meshed > 0, identity: node.meshed ? `spiffe://cluster.local/ns/${node.namespace}/sa/${node.name}` : "", certificate_expires: node.meshed ? at + 63_000 : null, rss_bytes: node.meshed ? 11_755_520 : null })),
      routes: [{ name: `HTTPRoute ${node.namespace}/${node.name}-split`, ...figures(rate, success, p99, 0, 0) }], services: [{ name: `${node.namespace}/${node.name}`, ...figures(rate, success, p99, 0, 0) }],
      rules: rules(node, rate * window, own.some((call) => call.denied)),
      points: points(at, window, rate, success, p99),
    };
  }
  if (url.pathname === "/api/edge") {
    const [from, to] = [url.searchParams.get("from"), url.searchParams.get("to")];
    const call = calls.find((one) => nodes[one.from].id === from && nodes[one.to].id === to);
    if (!call) return null;
    const requests = Math.round(call.rate * window);
    const failures = Math.round(requests * (1 - call.success));
    return {
      figures: figures(call.rate, call.success, call.p99, call.open, call.bytes), p95_milliseconds: call.rate ? call.p99 * 0.7 : null, mutual_tls: call.tls, requests, failures, denied: Math.round((call.denied ?? 0) * window), connections_opened: 4, read_bytes_per_second: call.bytes * 0.8, write_bytes_per_second: call.bytes * 0.2,
      rules: rules(nodes[call.to], requests, call.denied), is_account_shared: false,
      retries: failures ? [{ service: `${nodes[call.to].namespace}/${nodes[call.to].name}`, retries: failures * 2, succeeded: Math.round(failures * 1.4), over_limit: Math.round(failures / 3), over_budget: 17 }] : [],
      reasons: failures ? [["status 503", Math.round(failures * 0.8)], ["upstream_timeout (504)", Math.round(failures * 0.2)]] : [], points: points(at, window, call.rate, call.success, call.p99),
    };
  }
  if (url.pathname === "/api/requests") {
    const call = calls.find((one) => nodes[one.from].id === url.searchParams.get("from") && nodes[one.to].id === url.searchParams.get("to"));
    if (!call) return null;
    const one = (path, status, reason, attempts) => ({ at: "2026-11-21T12:00:01.234Z", method: "GET", path, status, grpc_status: null, total_milliseconds: call.p99 * 0.6, attempts, reason, pod: `${nodes[call.to].name}-7d9c5b6f4-abcd0`, trace_id: "" });
    const ordinary = one("/v1/items?page=2&a-long-query=that-does-not-fit-into-the-panel", 200, "", 1);
    return { requests: call.success < 1 ? [one("/v1/charge", 503, "no_endpoints: the Service has no endpoint", 2), ordinary] : call.rate ? [ordinary] : [], failed: null };
  }
  if (url.pathname === "/api/aside") {
    const [from, to] = [url.searchParams.get("from"), url.searchParams.get("to")];
    const call = calls.find((one) => nodes[one.from].id === from && nodes[one.to].id === to);
    const node = call ? nodes[call.to] : nodes.find((one) => one.id === url.searchParams.get("id"));
    if (!node) return null;
    if (!call) {
      return { waiting: false, failed: null, answer: { rules: [
        ["8080", `Server ${node.namespace}/${node.name}`, "health probe", "health probe", "every client", "10.0.0.0/8"],
        ["8080", `Server ${node.namespace}/${node.name}`, "-", `AuthorizationPolicy ${node.namespace}/${node.name}-clients`, "spiffe://cluster.local/ns/shop/sa/checkout, spiffe://cluster.local/ns/shop/sa/web", "all"],
        ["other", "default policy deny", "-", "-", "no client", "-"]] } };
    }
    const denial = (id, seconds, path) => ({ id, at: Math.floor(at - seconds), method: "POST", path, port: 8080, by: `Server ${node.namespace}/${node.name}`, pod: `${node.name}-7d9c5b6f4-abcd0` });
    const budgets = call.success < 1 ? [{ pod: `${nodes[call.from].name}-7d9c5b6f4-abcd0`, destination: `${node.name}.${node.namespace}.svc.cluster.local:80`, requests: 214, retries: 36, left: 6, interval_seconds: 10 }] : [];
    return { waiting: false, failed: null, answer: { denials: call.denied ? [denial("3f9a01c200000a17", 4, "/v1/refund"), denial("3f9a01c200000a16", 9, "/v1/refund/batch?")] : [], budgets, recorded: call.denied ? [{ verdict: "denied", rule: "", count: 41 }, { verdict: "allowed", rule: "AuthorizationPolicy shop/api", count: 7210 }] : [], failed: null } };
  }
  if (url.pathname === "/api/denial") return { waiting: false, failed: null, answer: { allowed: false, text: explanation(url.searchParams.get("id")) } };
  return undefined;
}

const rules = (node, requests, denied) => [
  ...(denied ? [{ verdict: "denied", server: `Server ${node.namespace}/${node.name}`, rule: "", requests: 420, connections: 0 }] : []),
  { verdict: "allowed", server: `Server ${node.namespace}/${node.name}`, rule: `AuthorizationPolicy ${node.namespace}/${node.name}-clients`, requests: Math.round(requests), connections: 3 },
];

const explanation = (id) => `denial     ${id}
time       4s ago
client     10.42.0.17:40312
identity   spiffe://cluster.local/ns/shop/sa/checkout
target     pod orders/payments-7d9c5b6f4-abcd0, 10.42.0.21:8080
request    POST /v1/refund
deny       Server orders/payments: no rule of it admits the client
  no rule  AuthorizationPolicy orders/payments-refunds: the client is not spiffe://cluster.local/ns/orders/sa/orders

Now: DENIED  shop/checkout-7d9c5b6f4-abcd0 -> orders/payments:8080  POST /v1/refund
`;

/** Serves on a free port; `extra` has more files by path, and `state` may change while it runs. */
export async function serve(size, { port = 0, extra = {}, bundle = new URL("../bundle/", import.meta.url) } = {}) {
  const state = world(size);
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://localhost");
    const headers = { "content-security-policy": POLICY, "cache-control": "no-store" };
    if (state.broken) return request.socket.destroy();
    const content = answer(state, url, Date.now() / 1000);
    if (content) return response.writeHead(200, { ...headers, "content-type": "application/json" }).end(JSON.stringify(content));
    const name = url.pathname === "/" ? "index.html" : url.pathname.slice(1);
    try {
      const file = extra[url.pathname] ?? new URL(name, bundle);
      const bytes = content === null ? null : await readFile(file);
      if (!bytes) throw new Error();
      response.writeHead(200, { ...headers, "content-type": TYPES[name.split(".").pop()] ?? "text/plain" }).end(bytes);
    } catch {
      response.writeHead(404, headers).end("not found\n");
    }
  });
  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  return { state, server, url: `http://127.0.0.1:${server.address().port}/`, close: () => { server.closeAllConnections(); server.close(); } };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const { url } = await serve(process.argv[2] ?? "shop", { port: Number(process.argv[3] ?? 0) });
  console.log(url);
}
