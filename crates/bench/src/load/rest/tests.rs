//! Loads that are asked for, against a server of the test's own.

use super::*;
use crate::selftest::server::{Behaviour, Server};

#[test]
fn a_load_is_made_and_answered_as_fortio_does() {
    let server = Server::start(Behaviour::Instant).expect("a server");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a reactor").block_on(async {
        let runs = Runs::default();
        let ask = |path: &'static str, query: String| {
            let runs = &runs;
            async move { runs.answer(path, &query, b"").await }
        };
        let reply = ask("run", format!("url={}&qps=-1&n=50&labels=x", server.address)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.body["RetCodes"]["200"], 50);
        assert_eq!(reply.body["DurationHistogram"]["Count"], 50);
        assert_eq!((&reply.body["RunID"], &reply.body["Labels"]), (&json!(1), &json!("x")));

        let reply = ask("run", format!("url={}&qps=50&t=on&async=on", server.address)).await;
        assert_eq!(reply.body["RunID"], 2);
        let status = |body: &Value| body["Statuses"]["2"]["State"].as_str().map(str::to_owned);
        let reply = ask("status", "runid=2".into()).await;
        assert_eq!(status(&reply.body).as_deref(), Some("running"));
        assert_eq!(ask("stop", "runid=2".into()).await.body["stopped"], 1);
        let done = loop {
            let reply = ask("status", String::new()).await;
            if status(&reply.body).as_deref() == Some("done") {
                break reply;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        let result = &done.body["Statuses"]["2"]["Result"];
        // A busy machine may have a reason of its own before it.
        let reasons = result["InvalidReasons"].as_array().cloned().unwrap_or_default();
        assert!(reasons.contains(&json!("ended early")), "{reasons:?}");
        assert_eq!(ask("stop", "runid=2".into()).await.body["stopped"], 0);

        for (path, query, status) in [
            ("run", "", 400),
            ("run", "url=nobody.invalid:1", 400),
            ("status", "runid=x", 400),
            ("other", "", 404),
        ] {
            let reply = ask(path, query.to_owned()).await;
            assert_eq!(
                (reply.status, &reply.body["error"]),
                (status, &json!(true)),
                "{path} {query}"
            );
        }
    });
}
