use super::*;
use std::fs;
use std::time::Duration;

fn service(name: &str, port: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: {port}}}]}}\n"
    )
}

/// Services as `name:port`, then the number of problems.
fn show(inventory: &Inventory) -> String {
    let services: Vec<_> = inventory
        .services
        .iter()
        .map(|service| {
            let ports = service.object.spec.as_ref().and_then(|spec| spec.ports.as_ref());
            format!("{}:{}", service.key.name, ports.map_or(0, |ports| ports[0].port))
        })
        .collect();
    format!("{} problems={}", services.join(" "), inventory.problems.len())
}

#[test]
fn edits_mistakes_renames_and_layers() {
    let folder = tempfile::tempdir().unwrap();
    let (base, over) = (folder.path().join("base"), folder.path().join("over"));
    fs::create_dir_all(base.join("deeper")).unwrap();
    fs::create_dir(&over).unwrap();
    let mut reader = Reader::new(vec![base.clone(), over.clone()]);
    let mut check = |expected: &str| {
        assert_eq!(show(&reader.read(&BTreeSet::new())), expected);
    };
    let write = |path: &Path, text: &str| {
        // As careful programs write: another file, then a rename.
        let new = path.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, path).unwrap();
    };
    check(" problems=0");
    write(&base.join("a.yaml"), &service("a", "80"));
    // As with `kubectl apply -f`, a folder in a folder is named by itself or not meant.
    write(&base.join("deeper/b.yml"), &service("b", "80"));
    write(&base.join("note.txt"), "not a manifest");
    write(&base.join(".hidden.yaml"), "not a manifest: [");
    check("a:80 problems=0");
    // A later layer replaces, and gives back when it goes.
    write(&over.join("x.yaml"), &service("a", "81"));
    check("a:81 problems=0");
    fs::remove_file(over.join("x.yaml")).unwrap();
    check("a:80 problems=0");
    // A mistake keeps what was good, and lets the rest of the file go on.
    write(&base.join("a.yaml"), &format!("{}---\n{}", service("a", "eighty"), service("c", "1")));
    check("a:80 c:1 problems=1");
    write(&base.join("a.yaml"), "kind: [");
    check("a:80 c:1 problems=1");
    write(&base.join("a.yaml"), &service("a", "82"));
    check("a:82 problems=0");
    // The same object twice in one layer.
    write(&base.join("z.yaml"), &service("a", "83"));
    check("a:83 problems=1");
    fs::rename(base.join("z.yaml"), base.join("z.bak")).unwrap();
    fs::remove_dir_all(base.join("deeper")).unwrap();
    check("a:82 problems=0");
    fs::remove_dir_all(&base).unwrap();
    check(" problems=1");
}

/// A busy machine may break the promise once; who looks every five seconds breaks it each time.
#[tokio::test]
async fn an_edit_is_live_within_a_second() {
    let mut late = Vec::new();
    while late.len() < 3 {
        match edits_are_live().await {
            Ok(()) => return,
            Err(expected) => late.push(expected),
        }
    }
    panic!("not seen within a second: {late:?}");
}

/// What was not seen within a second, if anything.
async fn edits_are_live() -> Result<(), &'static str> {
    let second = Duration::from_secs(1);
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("manifests");
    fs::create_dir(&root).unwrap();
    let (out, mut inventory) = watch::channel(Arc::default());
    let mut first = inventory.clone();
    let task = leno_runtime::tasks::spawn("test source", run(Reader::new(vec![root.clone()]), out));
    let mut expect = async |expected: &'static str| {
        let seen = inventory.wait_for(|inventory| show(inventory) == expected);
        timeout(second, seen).await.map_err(|_| expected)?.map(drop).map_err(|_| expected)
    };
    // That there is nothing is news as well.
    let nothing = "that there is nothing";
    timeout(second, first.changed()).await.map_err(|_| nothing)?.map_err(|_| nothing)?;
    fs::write(root.join("a.yaml"), service("a", "80")).unwrap();
    expect("a:80 problems=0").await?;
    // In place, same length, within the clock's granularity.
    fs::write(root.join("a.yaml"), service("a", "81")).unwrap();
    expect("a:81 problems=0").await?;
    fs::write(root.join("b.yaml"), service("b", "1")).unwrap();
    expect("a:81 b:1 problems=0").await?;
    fs::write(root.join("c.yaml"), "kind: [").unwrap();
    expect("a:81 b:1 problems=1").await?;
    for name in ["a.yaml", "b.yaml", "c.yaml"] {
        fs::remove_file(root.join(name)).unwrap();
    }
    expect(" problems=0").await?;
    drop((inventory, first));
    task.await.unwrap().unwrap();
    Ok(())
}

/// A FIFO once held up the whole control plane: opening it waits for somebody who writes.
#[test]
fn only_regular_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("good.yaml"), service("good", "80")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(at("fifo.yaml")).status();
    assert!(made.expect("mkfifo (coreutils)").success());
    let _socket = std::os::unix::net::UnixListener::bind(at("socket.yaml")).unwrap();
    std::os::unix::fs::symlink(at("loop.yaml"), at("loop.yaml")).unwrap();
    std::os::unix::fs::symlink(at("nothing"), at("dangling.yaml")).unwrap();
    std::os::unix::fs::symlink(at("nothing"), at("dangling.txt")).unwrap();
    fs::File::create(at("large.yaml")).unwrap().set_len(9 << 20).unwrap();
    let reader = Reader::new(vec![folder.path().to_owned()]);
    let inventory = reader.shown_as(vec!["/theirs".into()]).read(&BTreeSet::new());
    assert_eq!(show(&inventory), "good:80 problems=5");
    let mut shown: Vec<_> = inventory.problems.iter().map(ToString::to_string).collect();
    shown.sort();
    for (shown, expected) in shown.iter().zip([
        "/theirs/dangling.yaml: source: cannot be read: No such file",
        "/theirs/fifo.yaml: source: cannot be read: is a FIFO and not a regular file",
        "/theirs/large.yaml: source: cannot be read: is larger than 8 MiB",
        "/theirs/loop.yaml: source: cannot be read: Too many levels of symbolic links",
        "/theirs/socket.yaml: source: cannot be read: is a socket and not a regular file",
    ]) {
        assert!(shown.starts_with(expected), "{shown}");
    }
}
