use super::all;
use std::collections::BTreeSet;

/// Panels do not lie on each other, and each link leads to a dashboard that exists.
#[test]
fn panels_have_places_and_links_lead_somewhere() {
    let known: Vec<&str> = all().iter().map(|dashboard| dashboard.uid).collect();
    for dashboard in all() {
        let json = dashboard.json();
        let mut taken = BTreeSet::new();
        for panel in json["panels"].as_array().unwrap() {
            let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
            for x in at("x")..at("x") + at("w") {
                assert!(x < 24, "{}", panel["title"]);
                for y in at("y")..at("y") + at("h") {
                    assert!(taken.insert((x, y)), "{}: {}", dashboard.uid, panel["title"]);
                }
            }
            let links = panel["fieldConfig"]["defaults"]["links"].as_array();
            for link in links.into_iter().flatten() {
                let url = link["url"].as_str().unwrap();
                assert!(known.iter().any(|uid| url.starts_with(&format!("/d/{uid}?"))), "{url}");
            }
        }
        assert!(json["panels"].as_array().unwrap().len() > 8, "{}", dashboard.uid);
    }
}
