//! Address families of Services, and applications that listen on one family only.

use crate::up::Mesh;

/// Python's server as people start it listens on IPv4 alone; with its pod's IPv6 address, on that alone.
const FAMILIES: &str = r#"
{apiVersion: v1, kind: Pod, metadata: {name: four, labels: {app: four}}, spec: {containers: [
  {name: c, command: [python3, -u, -m, http.server, --bind, 0.0.0.0, "80"],
   readinessProbe: {tcpSocket: {port: 80}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: six, labels: {app: six}}, spec: {containers: [
  {name: c, command: [sh, -c, 'exec python3 -u -m http.server --bind "${IPS#*,}" 80'],
   readinessProbe: {exec: {command: [sh, -c, 'curl -sf -o /dev/null "http://[${IPS#*,}]/"']}, timeoutSeconds: 20},
   env: [{name: IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: client}, spec: {containers: [{name: c, command: [sleep, infinity]}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: plain, annotations: {leno.dev/inject: disabled}},
  spec: {containers: [{name: c, command: [sleep, infinity]}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: four}, spec: {selector: {app: four}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: four-both},
  spec: {ipFamilyPolicy: RequireDualStack, selector: {app: four}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: six}, spec: {ipFamilies: [IPv6], selector: {app: six}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: six-both},
  spec: {ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6, IPv4], selector: {app: six}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: pods}, spec: {clusterIP: None, selector: {app: four}, ports: [{port: 80}]}}
"#;

#[test]
fn services_have_the_families_they_ask_for() {
    let mut mesh = Mesh::new(FAMILIES);
    mesh.arguments = &[];
    mesh.start();
    for (name, v4, v6) in [
        ("four", "1", "0"),
        ("four-both", "1", "1"),
        ("six", "0", "1"),
        ("six-both", "1", "1"),
        ("pods", "1", "0"),
    ] {
        let count = |family: &str| {
            // glibc invents an IPv4-mapped answer for `ahostsv6`.
            format!("getent {family} {name} | grep -v ::ffff: | cut -d' ' -f1 | sort -u | wc -l")
        };
        mesh.check("client", &count("ahostsv4"), v4);
        mesh.check("client", &count("ahostsv6"), v6);
    }
    // As people call them: without a flag, and with the family that the application does not have.
    let get = "curl -s -m 10 -o /dev/null -w '%{http_code}'";
    for client in ["client", "plain"] {
        for (flags, name) in [
            ("", "four"),
            ("-4", "four"),
            ("", "four-both"),
            ("-6", "four-both"),
            ("", "six"),
            ("-6", "six"),
            ("", "six-both"),
            ("-4", "six-both"),
            ("", "pods"),
        ] {
            // A choice at random does not hide a refusal in so many calls.
            let script = format!("for i in 1 2 3 4; do {get} {flags} http://{name}/; done");
            mesh.check(client, &script, "200200200200");
        }
    }
    mesh.ends_without_a_trace();
}
