// Verdicts of policy, denials and retries, in the panels of an edge and of a workload.

import type { Aside, Budget, Decided, Denial, EdgeAside, EdgeDetails, Explanation, NodeAside, Policy, RuleRow } from "./api";
import { h } from "./dom";
import * as format from "./format";
import { type Node_, more, section } from "./parts";

const RULES_MAX = 12;

/** The verdict in one word; nothing where no proxy decided. */
export function badge(policy: Policy): Node_ | null {
  if (policy === null) return null;
  const [text, health] = { allowed: ["allowed", "good"], audited: ["audit only", "warn"], denied: ["denied", "bad"], mixed: ["partly denied", "bad"] }[policy] as [string, string];
  return h("span", { class: `badge ${health}`, title: "What policy decided in this window" }, text);
}

function verdicts(rules: RuleRow[]): Node_ {
  const words = { allowed: "allowed", audited: "audited", denied: "denied" };
  const rows = rules.slice(0, RULES_MAX).map((row) => h("tr", {},
    h("td", { class: row.verdict === "denied" ? "bad" : row.verdict === "audited" ? "warn" : "" }, words[row.verdict]),
    h("td", {}, row.rule || `no rule of ${row.server} admits it`, row.rule && row.rule !== row.server ? h("div", { class: "soft" }, row.server) : null),
    h("td", { class: "n" }, format.count(row.requests)),
    h("td", { class: "n" }, format.count(row.connections))));
  const heads = ["Verdict", "Rule"].map((name) => h("th", { scope: "col" }, name));
  const numbers = [["Req.", "Requests"], ["Conn.", "Connections"]].map(([name, title]) => h("th", { scope: "col", class: "n", title: title! }, name!));
  return h("table", { class: "rules", "aria-label": "Verdicts of policy" }, h("thead", {}, h("tr", {}, ...heads, ...numbers)), h("tbody", {}, ...rows));
}

/** What policy decided about an edge, and each denial that a proxy keeps. */
export function edge(details: EdgeDetails, aside: Aside<EdgeAside> | null, open: string, explanation: Aside<Explanation> | null): Node_[] {
  const shared = details.is_account_shared ? h("p", { class: "soft" }, "The client shares its ServiceAccount with other workloads, which are counted here, too.") : null;
  const none = h("p", { class: "soft" }, "No proxy of the server decided about this client in this window.");
  const parts = [section("Policy", details.rules.length ? verdicts(details.rules) : none, more(details.rules.length, RULES_MAX), shared, lastHour(aside?.answer?.recorded ?? []))];
  const denials = aside?.answer?.denials ?? [];
  if (details.denied > 0 || denials.length) parts.push(denied(denials, aside, open, explanation));
  return parts;
}

/** Verdicts of the record, which is older than this page. */
function lastHour(recorded: Decided[]): Node_ | null {
  if (!recorded.length) return null;
  const words = { allowed: "allowed", audited: "audited", denied: "denied", "no-route": "no route" };
  const rows = recorded.slice(0, RULES_MAX).map((row) => h("tr", {},
    h("td", { class: row.verdict === "denied" || row.verdict === "no-route" ? "bad" : row.verdict === "audited" ? "warn" : "" }, words[row.verdict]),
    h("td", {}, row.rule || "no rule admits it"),
    h("td", { class: "n" }, format.count(row.count))));
  return h("div", {}, h("h3", {}, "In the last hour"), h("table", { class: "rules", "aria-label": "Verdicts of the last hour" },
    h("thead", {}, h("tr", {}, ...["Verdict", "Rule"].map((name) => h("th", { scope: "col" }, name)), h("th", { scope: "col", class: "n", title: "Requests and connections" }, "Count"))), h("tbody", {}, ...rows)), more(recorded.length, RULES_MAX));
}

function denied(denials: Denial[], aside: Aside<EdgeAside> | null, open: string, explanation: Aside<Explanation> | null): Node_ {
  const why = aside?.failed ?? aside?.answer?.failed;
  if (!denials.length) return section("Denials", h("p", { class: "soft" }, why ?? (aside?.answer ? "The proxies of the server keep none of them any more." : "Asking the proxies of the server.")));
  const rows = denials.map((one) => {
    const isOpen = one.id === open;
    const what = one.method ? `${one.method} ${one.path}` : `connection to port ${one.port}`;
    const button = h("button", { type: "button", class: "link", "data-denial": one.id, "aria-expanded": String(isOpen), title: `${what}, denied by ${one.by} at ${one.pod}` },
      h("time", {}, format.clock(one.at)), " ", what);
    return h("li", { "data-key": one.id }, button, isOpen ? explained(explanation) : null);
  });
  return section("Denials", h("ul", { class: "denials" }, ...rows));
}

function explained(explanation: Aside<Explanation> | null): Node_ {
  if (explanation?.failed) return h("p", { class: "soft" }, explanation.failed);
  if (!explanation?.answer) return h("p", { class: "soft" }, "Asking the proxy and the control plane.");
  return h("pre", { tabindex: 0, "aria-label": "Explanation" }, explanation.answer.text.trim());
}

/** Retries that routes asked for, and what the budgets of the client's proxies have left. */
export function retries(details: EdgeDetails, aside: Aside<EdgeAside> | null): Node_ | null {
  const budgets = aside?.answer?.budgets ?? [];
  if (!details.retries.length && !budgets.length) return null;
  const rows = details.retries.map((row) => h("tr", {}, h("td", {}, row.service),
    ...[row.retries, row.succeeded, row.over_limit, row.over_budget].map((value, index) => h("td", { class: `n ${index === 3 && value > 0 ? "warn" : ""}` }, format.count(value)))));
  return section("Retries",
    details.retries.length ? sent(rows) : h("p", { class: "soft" }, "No route asked for a retry in this window."),
    ...budgets.slice(0, 5).map(budget));
}

function sent(rows: Node_[]): Node_ {
  const heads = [["Sent", "Retries that were sent"], ["Helped", "Retries with a response that was passed on"], ["Limit", "Failed requests that had used all retries of their route"], ["Budget", "Failed requests for which the destination's budget had no retry left"]];
  return h("table", { "aria-label": "Retries" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Service"),
    ...heads.map(([name, title]) => h("th", { scope: "col", class: "n", title: title! }, name!)))), h("tbody", {}, ...rows));
}

function budget(one: Budget): Node_ {
  const text = `Budget of ${one.pod}: ${format.plural(one.left, "retry", "retries")} left now; ${format.count(one.retries)} of ${format.plural(one.requests, "request")} in ${one.interval_seconds} s`;
  return h("p", { class: one.left === 0 ? "warn" : "soft", title: one.destination }, h("span", {}, text));
}

/** `shop/web` of an identity of the usual form; other texts as they are. */
const account = (client: string) => client.replace(/^spiffe:\/\/[^/]+\/ns\/([^/]+)\/sa\/([^/]+)$/, "$1/$2");

/** The rules of a workload's ports, and what they decided about all clients. */
export function workload(rules: RuleRow[], aside: Aside<NodeAside> | null): Node_ | null {
  const known = aside?.answer?.rules ?? [];
  if (!rules.length && !known.length) return aside?.failed ? section("Policy", h("p", { class: "soft" }, aside.failed)) : null;
  const rows = known.slice(0, RULES_MAX).map(([port, server, route, rule, clients, networks]) => h("tr", {},
    h("td", {}, port!),
    h("td", {}, rule === "-" ? server! : rule!, route !== "-" && route !== rule ? h("div", { class: "soft" }, route!) : null),
    h("td", { class: clients === "no client" ? "bad" : "", title: clients! }, clients!.split(", ").map(account).join(", "), networks === "all" || networks === "-" ? null : h("div", { class: "soft" }, networks!))));
  const who = known.length ? h("table", { class: "rules", "aria-label": "Who may reach it" },
    h("thead", {}, h("tr", {}, ...["Port", "Rule", "Clients"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...rows)) : null;
  return section("Policy", who, more(known.length, RULES_MAX), rules.length ? h("h3", {}, "Decided in this window") : null, rules.length ? verdicts(rules) : null);
}
