//! Which proxies have the newest configuration, as all replicas of the control plane know it.

use crate::home::Home;
use leno_install::check::applied::Proxies;
use serde_json::Value;

/// Which proxies have the newest configuration; `None` where the control plane does not answer, or may not be asked.
pub(super) fn read(home: &Home) -> Option<Proxies> {
    const PATH: &str = "/diagnostics/applied";
    let texts = match home {
        Home::Machine(_) => vec![home.control(PATH).ok()?.body],
        Home::Cluster(cluster) => {
            cluster.control_each(PATH).ok()?.into_iter().map(|(_, text)| text).collect()
        }
    };
    let parse = |text: &String| serde_json::from_str(text).ok();
    let answers: Option<Vec<Value>> = texts.iter().map(parse).collect();
    Some(Proxies::read(&answers?, None))
}
