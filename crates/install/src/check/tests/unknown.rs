//! What cannot be read is told as unknown: neither as absent nor as well.

use super::*;

const WHY: &str = "secrets is forbidden: User \"eve\" cannot list it";

/// An account that may read nothing: each list and object is refused.
fn blind(mode: Mode) -> Facts {
    let names = OBJECTS.map(|(name, _)| name);
    let lists = [
        NODES,
        NODE_LEASES,
        CONTROL_PODS,
        NAMESPACES,
        PODS,
        COPIES,
        EVENTS,
        REVIEWS,
        OWN_REVIEWS,
        LINKERDS,
    ];
    let workloads = WORKLOADS.map(|(list, _)| list);
    let kinds = server::DEFINITIONS.map(|(name, _)| name);
    let all = names.iter().chain(&lists).chain(&workloads).chain(&kinds);
    let good = well(mode);
    Facts {
        mode,
        version: good.version,
        namespace: good.namespace,
        now: good.now,
        server: good.server,
        server_clock: good.server_clock,
        trial: Some(Err(WHY.to_owned())),
        unread: all.map(|name| ((*name).to_owned(), WHY.to_owned())).collect(),
        ..Facts::default()
    }
}

#[test]
fn nothing_can_be_read() {
    for mode in [Mode::BeforeInstallation, Mode::Whole, Mode::Proxies] {
        let findings = run(&blind(mode));
        let known: Vec<&str> = findings
            .iter()
            .filter(|finding| finding.verdict == Verdict::Good)
            .map(|finding| finding.what.as_str())
            .collect();
        assert_eq!(
            known,
            [
                "the API server answers",
                "this machine's clock agrees with the API server's",
                "the version of Kubernetes is supported",
            ]
        );
        let told = told(&blind(mode));
        assert!(!told.contains('×') && !told.contains("there is no"), "{told}");
        assert!(!told.contains("leno install") && !told.contains("leno upgrade"), "{told}");
    }
}

#[test]
fn one_thing_that_cannot_be_read() {
    let hide = |name: &'static str| {
        move |f: &mut Facts| {
            f.objects.remove(name);
            f.definitions.remove(name);
            f.unread.insert(name.to_owned(), WHY.to_owned());
        }
    };
    for (name, _) in OBJECTS {
        let seen = format!("‼ not checked: {name} cannot be read: secrets is forbidden");
        check(well(Mode::Proxies), hide(name), &[&seen, "use an account"]);
        let mut facts = well(Mode::Proxies);
        hide(name)(&mut facts);
        assert!(!told(&facts).contains('×'), "{name}: {}", told(&facts));
    }
    for (name, _) in server::DEFINITIONS {
        check(well(Mode::Whole), hide(name), &[&format!("‼ not checked: {name} cannot be read")]);
    }
    // What is seen all the same counts.
    let both = |f: &mut Facts| {
        hide(REVIEWS)(f);
        f.rights[0].1 = false;
    };
    check(well(Mode::Whole), both, &["× these rights are missing"]);
    // Where one of both is known to be missing, nobody says that there is no mesh.
    let half = |f: &mut Facts| {
        hide(DEPLOYMENT)(f);
        f.objects.remove(CONFIG);
    };
    check(well(Mode::Whole), half, &["‼ not checked: Deployment/leno-control cannot be read"]);
    let silent = |f: &mut Facts| f.control_metrics[0].1 = Err("not allowed".into());
    check(
        well(Mode::Whole),
        silent,
        &["‼ not checked: leno-control-1 cannot be read: not allowed"],
    );
}
