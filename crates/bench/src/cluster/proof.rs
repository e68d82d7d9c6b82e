//! Whether the mesh really encrypts, by what its proxies have counted. Pure.

use crate::cluster::declaration::{MutualTls, Selector};

/// A smaller share of all connections with mutual TLS is not a proof: a mesh must encrypt all of them.
const SHARE_MIN: f64 = 0.99;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// `proved`, `off` or `unproved`, as on one machine.
    pub mtls: &'static str,
    /// In words.
    pub evidence: String,
}

/// Judges the scrapes of all proxies that carried the load. Their counters began at 0 with their pods, or are differences.
#[must_use]
pub fn judge(rules: Option<&MutualTls>, scrapes: &[String]) -> Proof {
    let unproved = |evidence: &str| Proof { mtls: "unproved", evidence: evidence.to_owned() };
    let Some(rules) = rules else {
        return unproved("the mesh's declaration has no mutual_tls");
    };
    if scrapes.is_empty() {
        return unproved("no proxy was asked");
    }
    let sum = |selectors: &[Selector]| -> f64 {
        let each = scrapes
            .iter()
            .flat_map(|scrape| selectors.iter().filter_map(|selector| selector.sum(scrape)));
        each.fold(0.0, |sum, one| sum + one)
    };
    let (encrypted, all) = (sum(&rules.encrypted), sum(&rules.all));
    let evidence = format!(
        "{encrypted:.0} of {all:.0} were counted with mutual TLS; proxies asked: {}",
        scrapes.len()
    );
    let mtls = match encrypted {
        _ if all == 0.0 => "unproved",
        0.0 => "off",
        encrypted if encrypted >= all * SHARE_MIN => "proved",
        _ => "unproved",
    };
    Proof { mtls, evidence }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::declaration;

    #[test]
    fn connections_with_mutual_tls() {
        check(
            "leno",
            &["true 3", "true 4"],
            "proved: 7 of 7 were counted with mutual TLS; proxies asked: 2",
        );
        check(
            "leno",
            &["true 199 no_identity 1"],
            "proved: 199 of 200 were counted with mutual TLS; proxies asked: 1",
        );
        check(
            "leno",
            &["true 9 no_identity 1"],
            "unproved: 9 of 10 were counted with mutual TLS; proxies asked: 1",
        );
        check(
            "leno",
            &["no_identity 5"],
            "off: 0 of 5 were counted with mutual TLS; proxies asked: 1",
        );
        check("leno", &[""], "unproved: 0 of 0 were counted with mutual TLS; proxies asked: 1");
        check("leno", &[], "unproved: no proxy was asked");
        check("none", &["true 3"], "unproved: the mesh's declaration has no mutual_tls");
    }

    /// Scrapes as pairs of label and count.
    #[track_caller]
    fn check(mesh: &str, scrapes: &[&str], expected: &str) {
        let scrape = |text: &&str| -> String {
            let words: Vec<&str> = text.split_whitespace().collect();
            let line = |pair: &[&str]| {
                format!(
                    "tcp_open_total{{direction=\"outbound\",peer=\"dst\",tls=\"{}\"}} {}\n\
                     tcp_open_total{{direction=\"outbound\",peer=\"src\",tls=\"no_identity\"}} 9\n",
                    pair[0], pair[1]
                )
            };
            words.chunks(2).map(line).collect()
        };
        let rules = declaration::find(mesh).unwrap().mutual_tls;
        let scrapes: Vec<String> = scrapes.iter().map(scrape).collect();
        let Proof { mtls, evidence } = judge(rules.as_ref(), &scrapes);
        assert_eq!(format!("{mtls}: {evidence}"), expected);
    }
}
