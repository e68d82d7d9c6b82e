// The answers of `leno dashboard`; docs/dashboard.md describes them.

export interface Figures {
  requests_per_second: number;
  success_rate: number | null;
  p50_milliseconds: number | null;
  p99_milliseconds: number | null;
  connections_open: number;
  bytes_per_second: number;
}

export interface ApiNode extends Figures {
  id: string;
  namespace: string;
  kind: string;
  name: string;
  pods: number;
  ready: number;
  meshed: number;
}

export type MutualTls = "yes" | "no" | "mixed" | null;

/** What the proxies of the server decided in the window. */
export type Policy = "allowed" | "audited" | "denied" | "mixed" | null;

export interface ApiEdge extends Figures {
  from: number;
  to: number;
  mutual_tls: MutualTls;
  denied_per_second: number;
  policy: Policy;
}

export interface Point {
  at: number;
  requests_per_second: number;
  failures_per_second: number;
  p50_milliseconds: number | null;
  p99_milliseconds: number | null;
}

export interface Happening {
  at: number;
  warning: boolean;
  reason: string;
  node: string;
  object: string;
  message: string;
  count: number;
}

export interface Graph {
  home: "machine" | "cluster";
  at: number;
  window_seconds: number;
  covered_seconds: number;
  slot_seconds: number;
  readings: number;
  failed: string | null;
  left_out: number;
  proxies: number;
  proxies_read: number;
  nodes: ApiNode[];
  edges: ApiEdge[];
  points: Point[];
  happenings: Happening[];
}

export interface Part extends Figures {
  name: string;
}

/** What one rule decided. */
export interface RuleRow {
  verdict: "allowed" | "audited" | "denied";
  server: string;
  rule: string;
  requests: number;
  connections: number;
}

/** Retries that the routes of a Service asked for. */
export interface RetryRow {
  service: string;
  retries: number;
  succeeded: number;
  over_limit: number;
  over_budget: number;
}

export interface NodeDetails {
  figures: Figures;
  p95_milliseconds: number | null;
  read_bytes_per_second: number;
  write_bytes_per_second: number;
  pods: { name: string; ready: boolean; meshed: boolean; identity: string; certificate_expires: number | null; rss_bytes: number | null }[];
  routes: Part[];
  services: Part[];
  rules: RuleRow[];
  points: Point[];
}

export interface EdgeDetails {
  figures: Figures;
  p95_milliseconds: number | null;
  mutual_tls: MutualTls;
  requests: number;
  failures: number;
  denied: number;
  connections_opened: number;
  read_bytes_per_second: number;
  write_bytes_per_second: number;
  reasons: [string, number][];
  rules: RuleRow[];
  is_account_shared: boolean;
  retries: RetryRow[];
  points: Point[];
}

export interface Denial {
  id: string;
  at: number;
  /** Null where a connection was denied. */
  method: string | null;
  path: string | null;
  port: number;
  by: string;
  pod: string;
}

/** What a pod's proxy has left for retries to a destination. */
export interface Budget {
  pod: string;
  destination: string;
  requests: number;
  retries: number;
  left: number;
  interval_seconds: number;
}

/** An answer that proxies or the control plane are asked for. */
export interface Aside<T> {
  waiting: boolean;
  failed: string | null;
  answer: T | null;
}

/** What a rule decided about a client within the last hour, as the control plane recorded it. */
export interface Decided {
  verdict: "allowed" | "audited" | "denied" | "no-route";
  /** Empty where no rule decided. */
  rule: string;
  /** Requests and connections. */
  count: number;
}

export interface EdgeAside {
  denials: Denial[];
  budgets: Budget[];
  /** Null where the control plane does not answer, or the server has no proxy. */
  recorded: Decided[] | null;
  failed: string | null;
}

/** Rows of `leno authz`: port, Server, route, rule, clients, networks. */
export interface NodeAside { rules: string[][] }

/** What `leno explain ID` prints. */
export interface Explanation { text: string; allowed: boolean }

/** A request of an edge, as a proxy saw it. */
export interface Tapped {
  at: string;
  method: string;
  path: string;
  status: number;
  grpc_status: number | null;
  total_milliseconds: number;
  attempts: number;
  reason: string;
  pod: string;
  trace_id: string;
}

export interface Requests {
  requests: Tapped[];
  failed: string | null;
}

/** An answer takes this long at most; the next question is then asked anew. */
const TIMEOUT_MILLISECONDS = 15_000;

async function get<T>(path: string): Promise<T | null> {
  const answer = await fetch(path, { signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS) });
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  return (await answer.json()) as T;
}

export const graph = (seconds: number) => get<Graph>(`/api/graph?window=${seconds}`);
export const node = (id: string, seconds: number) => get<NodeDetails>(`/api/node?window=${seconds}&id=${encodeURIComponent(id)}`);
export const edge = (from: string, to: string, seconds: number) =>
  get<EdgeDetails>(`/api/edge?window=${seconds}&from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`);
export const requests = (from: string, to: string) => get<Requests>(`/api/requests?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`);
export const edgeAside = (from: string, to: string) => get<Aside<EdgeAside>>(`/api/aside?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`);
export const nodeAside = (id: string) => get<Aside<NodeAside>>(`/api/aside?id=${encodeURIComponent(id)}`);
export const denial = (id: string) => get<Aside<Explanation>>(`/api/denial?id=${id}`);
