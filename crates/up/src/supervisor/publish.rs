//! Every version of the world to the kernel's rules, the resolver's names, and the file that the control plane reads.

use crate::names::Table;
use crate::pod::Home;
use crate::{generated, namespace, ruleset, service};
use leno_runtime::file::write_atomically;
use leno_runtime::tasks;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The name in the directory of generated manifests.
const FILE: &str = "leno-up.yaml";

/// What could not be written is written once there is room.
const AGAIN: Duration = Duration::from_secs(1);

/// Publishes until the returned task is dropped.
pub(super) fn start(home: Arc<Home>, names: watch::Sender<Arc<Table>>) -> tasks::Owned {
    let mut changes = home.shared.changes();
    tasks::spawn_owned("publish", async move {
        let (mut rules_before, mut text_before) = (String::new(), String::new());
        let mut is_written = true;
        loop {
            let version = *changes.borrow_and_update();
            let (rules, table, text) = home.shared.look_mut(|world| {
                let views = service::views(world);
                let rules = ruleset::text(&service::forwards(&views));
                (rules, service::names(&views), generated::text(world, &views))
            });
            if rules != rules_before {
                match namespace::feed_later("nft", &["-f", "-"], &rules).await {
                    Ok(()) => rules_before = rules,
                    Err(error) => tracing::error!("service rules: {error}"),
                }
            }
            names.send_if_modified(|now| {
                let changed = **now != table;
                if changed {
                    *now = Arc::new(table);
                }
                changed
            });
            // Tried again until it works, also where the text has become what it was.
            if text != text_before || !is_written {
                let file = home.paths.generated().join(FILE);
                let written = write_atomically(&file, text.as_bytes(), 0o644);
                home.journal.room(&home.paths, &written);
                is_written = written.is_ok();
                if is_written {
                    text_before = text;
                }
            }
            home.shared.say_published(version);
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return;
                },
                () = tokio::time::sleep(AGAIN), if !is_written => {}
            }
        }
    })
}
