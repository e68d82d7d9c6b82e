//! `leno authz`: who may reach the ports of a workload, by the rules that its proxy has.

use super::diagnostics::encoded;
use super::explain::{ask, list, object, workload};
use crate::args::Authz;
use crate::home::Home;
use crate::output;
use serde_json::Value;
use std::path::Path;

pub(super) fn run(state_dir: Option<&Path>, wanted: &Authz) -> anyhow::Result<()> {
    let home = Home::find(state_dir, &wanted.flags.cluster)?;
    let namespace = wanted.flags.namespace.as_deref().unwrap_or_else(|| home.namespace());
    let named = workload(&wanted.workload, namespace)?;
    let answer = ask(&home, &format!("/diagnostics/authz?of={}", encoded(&named)))?;
    let text = output::structured(wanted.flags.output, &answer)?;
    output::print(&text.unwrap_or_else(|| table(&answer)))?;
    if answer["meshed"] != Value::Bool(true) {
        eprintln!("leno: the pod has no proxy, so these rules are not enforced");
    }
    Ok(())
}

fn table(answer: &Value) -> String {
    let ports = list(&answer["ports"]).iter().map(|port| (port["port"].to_string(), port));
    let all = ports.chain([("other".to_owned(), &answer["other_ports"])]);
    let rows: Vec<Vec<String>> = all.flat_map(|(name, port)| rows(&name, port)).collect();
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
