//! Which roots proxies have, while one replaces the other.

use super::*;
use leno_tls::Anchors;

const WEB: &str = "shop/web-1";

/// What a proxy says that has these roots.
fn has(pem: &str) -> String {
    let roots = Anchors::from_pem(pem.as_bytes(), "cluster.local").unwrap();
    let line = |root: &leno_tls::anchors::Root| {
        let leno_tls::anchors::Root { fingerprint, not_after } = root;
        format!(
            "identity_trust_anchors_info{{fingerprint=\"{fingerprint}\",not_after=\"{not_after}\"}} 1\n"
        )
    };
    said(NOW - 3600, 1, 2, 0) + &roots.known().iter().map(line).collect::<String>()
}

#[test]
fn which_roots_proxies_have() {
    let new = make("cluster.local", NOW - DAY).unwrap().anchors;
    // What is installed, and what the proxy has, each made of the roots of before.
    #[track_caller]
    fn told_of(
        mode: Mode,
        installed: impl Fn(&str) -> String,
        proxy: impl Fn(&str) -> String,
    ) -> String {
        let mut facts = well(mode);
        let old = facts.anchors_pem().unwrap().to_owned();
        let installed = installed(&old);
        object(&mut facts, ANCHORS)["data"]["trust-anchors.pem"] = installed.clone().into();
        for map in &mut facts.anchors {
            map["data"]["trust-anchors.pem"] = installed.clone().into();
        }
        facts.proxy_metrics.insert(WEB.to_owned(), Ok(proxy(&old)));
        told(&facts)
    }
    let both = |old: &str| format!("{old}{new}");
    let same = str::to_owned;
    let silent = |_: &str| said(NOW - 3600, 1, 2, 0);
    //     mode           installed  of the proxy              told
    type Made<'a> = &'a dyn Fn(&str) -> String;
    let all: [(Mode, Made<'_>, Made<'_>, &str); 7] = [
        (Mode::Proxies, &same, &has, ""),
        (Mode::Proxies, &both, &|old| has(&format!("{new}{old}")), ""),
        (
            Mode::Proxies,
            &both,
            &has,
            "× these have different ones: shop/web-1 → a kubelet updates them",
        ),
        (Mode::Proxies, &same, &|old| has(&both(old)), "× these have different ones: shop/web-1"),
        (
            Mode::Proxies,
            &both,
            &silent,
            "‼ not checked for shop/web-1 → proxies of an older version",
        ),
        (Mode::Proxies, &same, &silent, ""),
        (Mode::Whole, &both, &has, ""),
    ];
    for (mode, installed, proxy, expected) in all {
        let told = told_of(mode, installed, proxy);
        assert_eq!(told.is_empty(), expected.is_empty(), "{told}");
        assert!(told.starts_with(expected), "{told}\nshould begin with\n{expected}");
    }
}
