use super::*;
use leno_up::figures::Said;
use std::time::{Duration, Instant};

const TEXT: &str = "response_total{direction=\"inbound\",classification=\"success\"} 9\n\
    response_total{direction=\"inbound\",classification=\"failure\"} 1\n\
    tcp_open_connections{direction=\"inbound\",peer=\"src\"} 2\n\
    response_total{direction=\"outbound\",dst_service=\"db\",dst_namespace=\"data\",classification=\"success\"} 4\n";

fn member(namespace: &str, name: &str, workload: &str, meshed: bool) -> Member {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    Member { namespace, name, workload: workload.to_owned(), meshed, ..Member::default() }
}

fn members() -> Vec<Member> {
    let over = Member { ending: true, ..member("shop", "web-3", "deployment/web", true) };
    vec![
        member("shop", "web-1", "deployment/web", true),
        member("shop", "web-2", "deployment/web", true),
        member("shop", "plain-1", "deployment/plain", false),
        member("other", "db-0", "statefulset/db", true),
        over,
    ]
}

/// All meshed pods, read twice within a second.
fn readings() -> [Vec<Reading>; 2] {
    let began = Instant::now();
    [("", began), (TEXT, began + Duration::from_secs(1))].map(|(text, at)| {
        let meshed = members().into_iter().filter(|member| member.meshed && !member.ending);
        let read = |member: Member| {
            let said = Said {
                namespace: member.namespace,
                pod: member.name,
                identity: String::new(),
                text: text.to_owned(),
            };
            Reading::new(said, at)
        };
        meshed.map(read).collect()
    })
}

#[track_caller]
fn check(target: &str, expected: &[&str]) {
    let target: Vec<String> = target.split(' ').map(str::to_owned).collect();
    let [before, after] = readings();
    let wish = match Wish::read(&target) {
        Ok(wish) => wish,
        Err(error) => {
            assert_eq!([error.to_string().as_str()], expected);
            return;
        }
    };
    let rows = match wish.kind {
        "service" => services(&before, &after, &None, &wish),
        _ => groups(&members(), (&before, &after), None, &wish),
    };
    let text = table(&rows, Format::Table);
    let shown: Vec<String> = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(shown, expected, "{target:?}");
}

#[test]
fn pods_by_what_they_are_of() {
    let plain = "shop plain 0/1 - - - - - -";
    let web = "shop web 2/2 90.00 % 20.0 - - - 4";
    check("deploy", &[plain, web]);
    check("deployments/web", &[web]);
    check("deploy web", &[web]);
    check("deploy/x", &[]);
    check("sts", &["other db 1/1 90.00 % 10.0 - - - 2"]);
    check("ns", &["- other 1/1 90.00 % 10.0 - - - 2", "- shop 2/3 90.00 % 20.0 - - - 4"]);
    check("po/web-1", &["shop web-1 1/1 90.00 % 10.0 - - - 2"]);
    check("svc", &["data db - 100.00 % 12.0 - - - 0"]);
    check("svc/x", &[]);
    let kinds = "is not a valid kind; use deploy, sts, ds, job, rs, rc, po, svc or ns";
    check("authority", &[&format!("\"authority\" {kinds}")]);
    check("deploy/", &["deployment/ needs a name"]);
}

#[test]
fn json_says_null_where_nothing_is_known() {
    let [before, after] = readings();
    let wish = Wish { kind: "deployment", name: Some("plain".into()) };
    let rows = groups(&members(), (&before, &after), None, &wish);
    let expected = serde_json::json!([{"kind": "deployment", "namespace": "shop", "name": "plain",
        "meshed": 0, "pods": 1, "configuration": null, "traffic": null}]);
    assert_eq!(serde_json::to_value(&rows).unwrap(), expected);
    assert_eq!(table(&rows, Format::Name), "deployment/plain\n");
}

/// The column is there when a proxy is behind, and with `-o wide`.
#[test]
fn proxies_that_are_behind_are_counted() {
    let proxy = |pod: &str, waiting: serde_json::Value| serde_json::json!({"namespace": "shop", "pod": pod, "acknowledges": true, "waiting": waiting});
    let check = |format: Format, waiting: serde_json::Value, expected: Option<&str>| {
        let answer = serde_json::json!({"proxies": [proxy("web-1", serde_json::json!([])), proxy("web-2", waiting)]});
        let proxies = Proxies::read([&answer], None);
        let [before, after] = readings();
        let wish = Wish { kind: "deployment", name: Some("web".into()) };
        let rows = groups(&members(), (&before, &after), Some(&proxies), &wish);
        let text = table(&rows, format);
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let mut lines = text.lines().map(cells);
        let (headings, row) = (lines.next().unwrap(), lines.next().unwrap());
        let at = headings.iter().position(|heading| heading == "APPLIED");
        assert_eq!(at.map(|at| row[at].as_str()), expected);
    };
    let late = serde_json::json!([{"what": "the policy of port 80", "seconds": 9.0}]);
    check(Format::Table, serde_json::json!([]), None);
    check(Format::Wide, serde_json::json!([]), Some("2/2"));
    check(Format::Table, late, Some("1/2"));
}

#[test]
fn whose_proxies_are_asked() {
    let own = Scope { namespace: Some("shop".into()), ..Scope::default() };
    let check = |target: &str, scope: &Scope, expected: Option<&str>| {
        let asked = asked(&Wish::read(&[target.to_owned()]).unwrap(), scope);
        assert_eq!(asked.namespace.as_deref(), expected, "{target}");
        assert_eq!(asked.all_namespaces, expected.is_none(), "{target}");
    };
    check("deploy", &own, Some("shop"));
    check("svc", &own, None);
    check("ns", &Scope::default(), None);
    check("ns", &own, Some("shop"));
    check("ns/other", &own, Some("other"));
}
