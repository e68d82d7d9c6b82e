use super::*;
use crate::cluster::declaration;

fn wanted() -> Wanted {
    let pod = |image: &str, command: &[&str]| json!({"containers": [{"name": "c", "image": image, "command": command}]});
    Wanted {
        objects: vec![
            json!({"kind": "Namespace", "metadata": {"name": "shop"}}),
            json!({"kind": "Pod", "metadata": {"name": "client", "labels": {"app": "client"}},
                "spec": pod("leno/worker:dev", &["sleep", "infinity"])}),
            json!({"kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"template": {"metadata": {"labels": {"app": "web"}},
                    "spec": pod("leno/worker:dev", &["leno-worker"])}}}),
            json!({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"selector": {"app": "web"}}}),
        ],
        clients: vec!["client".to_owned()],
        ..Wanted::default()
    }
}

fn common() -> Common {
    let placement = Placement { generators: vec!["n2".to_owned()], servers: vec!["n1".to_owned()] };
    Common { image: "img:1".to_owned(), placement, campaign: "c1".to_owned(), server_cores: 1 }
}

fn prepared(mesh: &str, wanted: &Wanted) -> Prepared {
    let mesh = declaration::find(mesh).unwrap();
    prepare(wanted, &mesh, &common(), "b-001").unwrap()
}

/// `kind namespace/name` of all.
fn names(prepared: &Prepared) -> Vec<String> {
    let one = |(_, object): &(&str, Value)| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        format!(
            "{} {}/{}",
            text(&object["kind"]),
            text(&metadata["namespace"]),
            text(&metadata["name"])
        )
    };
    prepared.objects.iter().map(one).collect()
}

#[test]
fn objects_live_in_namespaces_of_their_own() {
    let none = prepared("none", &wanted());
    let expected = [
        "Namespace /b-001",
        "Namespace /b-001-shop",
        "Service b-001-shop/web",
        "Deployment b-001-shop/web",
        "Pod b-001/client",
    ];
    assert_eq!(names(&none), expected);
    assert_eq!(none.objects[0].1["metadata"]["labels"], json!({LABEL: "c1"}));
    let leno = prepared("leno", &wanted());
    assert_eq!(
        leno.objects[0].1["metadata"]["labels"],
        json!({LABEL: "c1", "leno.dev/inject": "enabled"})
    );
    let waypoint = prepared("istio-waypoint", &wanted());
    let gateways = names(&waypoint).into_iter().filter(|name| name.starts_with("Gateway"));
    assert_eq!(
        gateways.collect::<Vec<_>>(),
        ["Gateway b-001/waypoint", "Gateway b-001-shop/waypoint"]
    );
}

#[test]
fn pods_have_the_image_their_node_and_a_program_that_waits() {
    let none = prepared("none", &wanted());
    let (web, client) =
        (&none.objects[3].1["spec"]["template"]["spec"], &none.objects[4].1["spec"]);
    for (pod, command, node) in [
        (web, json!(["leno-worker"]), "n1"),
        (client, json!(["leno-worker", "--name=idle", "--tcp=0"]), "n2"),
    ] {
        assert_eq!(pod["containers"][0]["image"], "img:1");
        assert_eq!(pod["containers"][0]["command"], command);
        assert!(pod["affinity"].to_string().contains(&format!("\"values\":[\"{node}\"]")), "{pod}");
    }
}

#[test]
fn who_joins_the_mesh() {
    let injected = |mesh: &str, sidecars: Sidecars, unmeshed: &[&str]| {
        let unmeshed = unmeshed.iter().map(ToString::to_string).collect();
        let prepared = prepared(mesh, &Wanted { sidecars, unmeshed, ..wanted() });
        let out = |object: &Value| object.to_string().contains("\"leno.dev/inject\":\"disabled\"");
        [&prepared.objects[3].1, &prepared.objects[4].1].map(out)
    };
    //                                                   web    client stay out
    assert_eq!(injected("leno", Sidecars::Both, &[]), [false, false]);
    assert_eq!(injected("leno", Sidecars::Client, &[]), [true, false]);
    assert_eq!(injected("leno", Sidecars::Server, &[]), [false, true]);
    assert_eq!(injected("leno", Sidecars::None, &[]), [true, true]);
    assert_eq!(injected("leno", Sidecars::Both, &["shop/web"]), [true, false]);
    assert_eq!(injected("none", Sidecars::Both, &[]), [false, false], "there is nothing to leave");
}

#[test]
fn what_a_cluster_is_not_given() {
    let mut wanted = wanted();
    wanted.objects.push(json!({"kind": "ClusterRole", "metadata": {"name": "all"}}));
    let long = "x".repeat(60);
    wanted.objects.push(json!({"kind": "Secret", "metadata": {"name": "s", "namespace": long}}));
    let none = declaration::find("none").unwrap();
    let wrong = prepare(&wanted, &none, &common(), "b-001").unwrap_err();
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].starts_with("namespace b-001-xxx"), "{wrong:?}");
    assert!(wrong[1].starts_with("ClusterRole all: a benchmark creates only "), "{wrong:?}");
}

#[test]
fn urls_go_to_the_same_place() {
    let none = prepared("none", &wanted());
    for (url, expected) in [
        ("http://web.shop:8080/a.shop", "http://web.b-001-shop:8080/a.shop"),
        ("http://web.shop.svc.cluster.local/", "http://web.b-001-shop.svc.cluster.local/"),
        ("grpc://web:80/a/B", "grpc://web:80/a/B"),
        ("tcp://web.elsewhere:80", "tcp://web.elsewhere:80"),
        ("http://web.default/", "http://web.b-001/"),
    ] {
        assert_eq!(none.url(url), expected);
    }
}
