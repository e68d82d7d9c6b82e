//! The store by tables: what is left to the next process, and what is not believed.

use super::*;
use crate::config::Raw;
use crate::discovery::Remembered;
use leno_model::name::Resource;
use leno_model::policy::{DefaultPolicy, InboundPolicy, InboundProtocol};
use leno_model::workload::Labels;
use std::path::Path;

/// A store as the proxy of this pod opens it.
fn store(directory: &Path, pod: &str, uid: &str) -> Arc<Store> {
    let workload = format!("default:{pod}");
    let directory = directory.to_str().unwrap();
    let raw = Raw::from([
        ("LENO_PROXY_WORKLOAD", workload.as_str()),
        ("LENO_PROXY_IDENTITY", "spiffe://td/ns/default/sa/web"),
        ("LENO_PROXY_CONTROL_ADDRESS", "127.0.0.1:1"),
        ("LENO_PROXY_TRUST_ANCHORS_FILE", "anchors.pem"),
        ("LENO_PROXY_TOKEN_FILE", "token"),
        ("LENO_PROXY_STATE_DIR", directory),
        ("LENO_PROXY_POD_UID", uid),
    ]);
    let config = Config::parse(&raw).unwrap();
    Store::open(&config, Arc::default()).unwrap()
}

fn known() -> Known {
    let policy = InboundPolicy {
        protocol: InboundProtocol::Opaque,
        authorizations: DefaultPolicy::Deny.authorizations(),
        routes: Vec::new(),
        rejects_unrouted: false,
        server: Resource::default_named("deny"),
        labels: Labels::default(),
        rate_limit: None,
    };
    let one = Remembered { state: Arc::new(policy), live: true };
    Known { inbound: [(80, one)].into(), ..Known::default() }
}

fn certified() -> Certified {
    Certified { key: vec![1], leaf: vec![2], intermediates: vec![vec![3]] }
}

fn errors(store: &Store) -> (u64, u64) {
    (store.status.failures.load(Relaxed), store.status.refused.load(Relaxed))
}

#[test]
fn the_next_process_begins_with_what_was_saved() {
    let directory = tempfile::tempdir().unwrap();
    let before = store(directory.path(), "web-1", "a");
    assert!(before.load().known().is_empty());
    before.save(&known()).unwrap();
    assert_eq!(before.status.saved_bytes.load(Relaxed), {
        std::fs::metadata(directory.path().join("discovery")).unwrap().len()
    });
    let after = store(directory.path(), "web-1", "a");
    let loaded = after.load().known();
    assert_eq!(loaded.len(), 1);
    assert_eq!(loaded.inbound[&80].state, known().inbound[&80].state);
    assert!(!loaded.inbound[&80].live);
    assert_eq!((after.status.loaded.load(Relaxed), errors(&after)), (1, (0, 0)));
}

#[test]
fn what_is_not_believed_is_counted_and_nothing_is_taken() {
    let check = |spoil: &dyn Fn(&Path), pod: &str, uid: &str| {
        let directory = tempfile::tempdir().unwrap();
        store(directory.path(), "web-1", "a").save(&known()).unwrap();
        spoil(&directory.path().join("discovery"));
        let after = store(directory.path(), pod, uid);
        assert!(after.load().known().is_empty());
        assert_eq!(errors(&after), (0, 1));
        // And it can be written again.
        after.save(&known()).unwrap();
        assert_eq!(after.load().known().len(), 1);
    };
    let write = |content: &'static [u8]| move |file: &Path| std::fs::write(file, content).unwrap();
    check(&|_| (), "web-2", "a");
    check(&|_| (), "web-1", "b");
    check(&write(b""), "web-1", "a");
    check(&write(b"leno snapshot 2\n"), "web-1", "a");
    check(&write(&[7; 1 << 20]), "web-1", "a");
    let cut = |file: &Path| {
        let length = std::fs::metadata(file).unwrap().len();
        std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(length - 1).unwrap();
    };
    check(&cut, "web-1", "a");
}

#[test]
fn a_directory_that_is_not_there_is_no_reason_to_end() {
    let raw = Raw::from([
        ("LENO_PROXY_WORKLOAD", "default:web-1"),
        ("LENO_PROXY_IDENTITY", "spiffe://td/ns/default/sa/web"),
        ("LENO_PROXY_CONTROL_ADDRESS", "127.0.0.1:1"),
        ("LENO_PROXY_TRUST_ANCHORS_FILE", "anchors.pem"),
        ("LENO_PROXY_TOKEN_FILE", "token"),
        ("LENO_PROXY_STATE_DIR", "/nowhere"),
    ]);
    let status = Arc::new(Status::default());
    assert!(Store::open(&Config::parse(&raw).unwrap(), status.clone()).is_none());
    assert_eq!(status.failures.load(Relaxed), 1);
    let mut text = String::new();
    status.write(&mut text);
    assert!(text.contains("snapshot_errors_total{error=\"failed\"} 1"), "{text}");
}

#[test]
fn a_key_is_kept_in_memory_alone() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let kept = store(memory.path(), "web-1", "a");
    assert_eq!(kept.load_credential().unwrap(), None);
    kept.save_credential(&certified()).unwrap();
    let (taken, _) = kept.load_credential().unwrap().unwrap();
    assert_eq!(taken, certified());
    assert!(store(memory.path(), "web-2", "a").load_credential().is_err());
    // A directory of another kind: nothing is written, and what lies there is not read.
    let other = Store::at(Path::new("/proc/self"), kept.owner.clone(), Arc::default()).unwrap();
    other.save_credential(&certified()).unwrap();
    assert_eq!(other.load_credential().unwrap(), None);
    // A file without a credential is none.
    kept.save(&known()).unwrap();
    std::fs::rename(memory.path().join("discovery"), memory.path().join("credential")).unwrap();
    assert!(matches!(kept.load_credential(), Err(SnapshotError::NoCredential(_))));
}
