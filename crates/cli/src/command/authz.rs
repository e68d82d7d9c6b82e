//! `leno authz`: who may reach the ports of a workload, by the rules that its proxy has, and who did.

use super::diagnostics::encoded;
use super::explain::{ask, list, object, workload};
use super::policy::warn_of_missing;
use crate::args::Authz;
use crate::home::Home;
use crate::output;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

pub(super) fn run(state_dir: Option<&Path>, wanted: &Authz) -> anyhow::Result<()> {
    let home = Home::find(state_dir, &wanted.flags.cluster)?;
    let namespace = wanted.flags.namespace.as_deref().unwrap_or_else(|| home.namespace());
    let named = workload(&wanted.workload, namespace)?;
    let mut answer = ask(&home, &format!("/diagnostics/authz?of={}", encoded(&named)))?;
    let of = answer["namespace"].as_str().unwrap_or(namespace);
    // An older control plane keeps no record.
    let record = ask(&home, &format!("/diagnostics/record?namespace={}", encoded(of)));
    let record = record.unwrap_or_default();
    answer["seen"] = seen(&answer, &record);
    answer["reach_seconds"] = record["reach_seconds"].clone();
    answer["missing"] = record["missing"].clone();
    warn_of_missing(&record);
    let text = output::structured(wanted.flags.output, &answer)?;
    output::print(&text.unwrap_or_else(|| table(&answer) + &reached(&answer)))?;
    if answer["meshed"] != Value::Bool(true) {
        eprintln!("leno: the pod has no proxy, so these rules are not enforced");
    }
    Ok(())
}

/// Who reached the ports of the workload: client, port and verdict, with counts.
fn seen(answer: &Value, record: &Value) -> Value {
    let workloads = list(&record["workloads"]).iter();
    let own = workloads.filter(|one| one["workload"] == answer["workload"]);
    let mut sums: BTreeMap<(u64, String, String), u64> = BTreeMap::new();
    for one in own.flat_map(|one| list(&one["traffic"])) {
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        let client = one["client"].as_str().map_or_else(|| text("network"), str::to_owned);
        let port = one["port"].as_u64().unwrap_or_default();
        *sums.entry((port, client, text("verdict"))).or_default() +=
            one["count"].as_u64().unwrap_or_default();
    }
    let rows = sums.into_iter().map(|((port, client, verdict), count)| {
        json!({"port": port, "client": client, "verdict": verdict, "count": count})
    });
    rows.collect()
}

fn reached(answer: &Value) -> String {
    let rows = list(&answer["seen"]).iter().map(|one| {
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        vec![one["port"].to_string(), text("client"), text("verdict"), one["count"].to_string()]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    match rows.is_empty() {
        true => String::new(),
        false => {
            let headings = ["PORT", "SEEN CLIENT", "VERDICT", "COUNT"];
            format!("\n{}", output::table(&headings, &rows))
        }
    }
}

/// The rows of a workload, `NAMESPACE/KIND/NAME`: port, Server, route, rule, clients, networks.
///
/// # Errors
/// The control plane does not answer, or does not know the workload.
pub(crate) fn rows_of(home: &Home, named: &str) -> anyhow::Result<Vec<Vec<String>>> {
    Ok(all_rows(&ask(home, &format!("/diagnostics/authz?of={}", encoded(named)))?))
}

fn all_rows(answer: &Value) -> Vec<Vec<String>> {
    let ports = list(&answer["ports"]).iter().map(|port| (port["port"].to_string(), port));
    let all = ports.chain([("other".to_owned(), &answer["other_ports"])]);
    all.flat_map(|(name, port)| rows(&name, port)).collect()
}

fn table(answer: &Value) -> String {
    let rows = all_rows(answer);
    output::table(&["PORT", "SERVER", "ROUTE", "RULE", "CLIENTS", "NETWORKS"], &rows)
}

fn rows(name: &str, port: &Value) -> Vec<Vec<String>> {
    let server = object(&port["server"]);
    let row = |cells: [String; 4]| {
        let mut row = vec![name.to_owned(), server.clone()];
        row.extend(cells);
        row
    };
    let rules = list(&port["rules"]);
    if rules.is_empty() {
        return vec![row(["-".into(), "-".into(), "no client".into(), "-".into()])];
    }
    let shown = |rule: &Value| {
        let route = &rule["route"];
        let route = if route.is_object() { object(route) } else { "-".to_owned() };
        let networks = list(&rule["networks"]).iter().filter_map(Value::as_str);
        let networks = match rule["networks"].is_array() {
            true => networks.collect::<Vec<_>>().join(", "),
            false => "all".to_owned(),
        };
        let clients = rule["clients"].as_str().unwrap_or_default().to_owned();
        row([route, object(&rule["rule"]), clients, networks])
    };
    rules.iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn who_reached_the_workload() {
        let of = |client: Option<&str>, path: &str, verdict: &str| json!({"port": 80, "client": client, "network": "10.0.0.0/24", "path": path, "verdict": verdict, "count": 2});
        let traffic = json!([
            of(Some("spiffe://td/a"), "/a", "allowed"),
            of(Some("spiffe://td/a"), "/b", "allowed"),
            of(None, "/", "denied")
        ]);
        let other = json!({"workload": "deployment/b", "traffic": traffic});
        let record =
            json!({"workloads": [{"workload": "deployment/a", "traffic": traffic}, other]});
        let mut answer = json!({"workload": "deployment/a"});
        answer["seen"] = super::seen(&answer, &record);
        let expected = "
PORT  SEEN CLIENT    VERDICT  COUNT
80    10.0.0.0/24    denied   2
80    spiffe://td/a  allowed  4
";
        assert_eq!(super::reached(&answer), expected);
        assert_eq!(super::reached(&json!({"seen": []})), "");
    }

    #[test]
    fn a_row_for_each_rule() {
        let server = json!({"kind": "server", "namespace": "shop", "name": "web"});
        let rule = json!({"kind": "authorizationpolicy", "namespace": "shop", "name": "b"});
        let answer = json!({
            "ports": [{"port": 8080, "server": server, "rules": [
                {"rule": rule, "route": null, "clients": "spiffe://td/b", "networks": null},
                {"rule": {"kind": "default", "name": "probe"}, "route": {"kind": "default", "name": "probe"}, "clients": "every client", "networks": ["10.0.0.0/8"]},
            ]}],
            "other_ports": {"server": {"kind": "default", "name": "deny"}, "rules": []},
        });
        let expected = "\
PORT   SERVER               ROUTE         RULE                        CLIENTS        NETWORKS
8080   Server shop/web      -             AuthorizationPolicy shop/b  spiffe://td/b  all
8080   Server shop/web      health probe  health probe                every client   10.0.0.0/8
other  default policy deny  -             -                           no client      -
";
        assert_eq!(super::table(&answer), expected);
    }
}
