//! Proxies that are cut off, and certificates of other roots.

use super::*;

const WEB: &str = "shop/web-1";

#[track_caller]
fn says(text: &str, expected: &[&str]) {
    check(
        well(Mode::Proxies),
        |f| drop(f.proxy_metrics.insert(WEB.to_owned(), Ok(text.to_owned()))),
        expected,
    );
}

#[track_caller]
fn nothing(text: &str) {
    let mut facts = well(Mode::Proxies);
    facts.proxy_metrics.insert(WEB.to_owned(), Ok(text.to_owned()));
    assert_eq!(told(&facts), "");
}

#[test]
fn whether_the_control_plane_is_heard() {
    let lately = NOW - 3600;
    says(
        &said(lately, 0, 2, 9),
        &["× cut off: shop/web-1", "kubectl rollout restart", "other roots"],
    );
    // It may come back; the address of another control plane does not.
    let mut cut = well(Mode::Proxies);
    cut.proxy_metrics.insert(WEB.to_owned(), Ok(said(lately, 0, 2, 9)));
    assert!(may_pass(&run(&cut)));
    says(&said(lately, 0, 0, 9), &["‼ the last request of shop/web-1 failed"]);
    // Failures of before; one that has nothing to ask, or never had; a proxy that does not say it.
    nothing(&said(lately, 1, 2, 9));
    nothing(&said(lately, 0, 0, 0));
    nothing(&said(lately, 0, 0, 0).replace(&format!("since_seconds {lately}"), "since_seconds 0"));
    nothing("proxy_build_info 1\n");
    check(
        well(Mode::Proxies),
        |f| drop(f.proxy_metrics.insert(WEB.to_owned(), Err("not allowed to create".to_owned()))),
        &["‼ shop/web-1 cannot be read: not allowed", "pods/portforward"],
    );
    // Only `--proxy` asks them.
    let mut whole = well(Mode::Whole);
    whole.proxy_metrics.insert(WEB.to_owned(), Ok(said(lately, 0, 2, 9)));
    assert_eq!(told(&whole), "");
}

#[test]
fn an_address_that_the_control_plane_had() {
    let at = |address: &str, streams: u64| {
        let address = address.to_owned();
        move |f: &mut Facts| {
            f.pods[0]["spec"]["initContainers"][0]["env"] =
                json!([{"name": "LENO_PROXY_CONTROL_ADDRESS", "value": address}]);
            f.proxy_metrics.insert(WEB.to_owned(), Ok(said(NOW - 3600, streams, 1, 3)));
        }
    };
    let facts = || well(Mode::Proxies);
    check(
        facts(),
        at("10.0.0.9:8086", 0),
        &[
            "× cut off: shop/web-1 (it uses 10.0.0.9:8086, which is not the address of Service/leno-control",
            "restart",
        ],
    );
    let mut elsewhere = facts();
    at("10.0.0.9:8086", 0)(&mut elsewhere);
    assert!(!may_pass(&run(&elsewhere)));
    for (address, streams) in [
        ("10.0.0.9:8086", 1),
        ("10.0.0.7:8086", 1),
        ("[fd00::7]:8086", 1),
        ("leno-control.leno:8086", 1),
    ] {
        let mut good = facts();
        at(address, streams)(&mut good);
        assert_eq!(told(&good), "", "{address}");
    }
}

#[test]
fn certificates() {
    // The roots are of a day ago.
    says(
        &said(NOW - DAY - 3600, 0, 0, 0).replace(
            &format!("expiration_timestamp_seconds {}", NOW - 3600),
            &format!("expiration_timestamp_seconds {}", NOW + DAY),
        ),
        &["× the certificate of shop/web-1 is older than every installed root", "rollout restart"],
    );
    // Who is heard is trusted: a root that was signed again is younger than what it signed.
    nothing(&said(NOW - DAY - 3600, 1, 0, 0).replace(
        &format!("expiration_timestamp_seconds {}", NOW - 3600),
        &format!("expiration_timestamp_seconds {}", NOW + DAY),
    ));
    says(
        &said(NOW - DAY - 3600, 1, 2, 0),
        &["× the certificate of shop/web-1 expired 60 minutes ago"],
    );
    says(
        &said(NOW - DAY + 7200, 1, 2, 0),
        &["‼ the certificate of shop/web-1 expires in 119 minutes and was not"],
    );
}
