//! Changes to what all tests share, each undone when it is dropped.

use crate::ground::control::alone;
use crate::ground::kubectl;
use anyhow::{Result, ensure};
use serde_json::Value;

/// What undoes a change.
enum Undo {
    /// Put this back in the place of what is there.
    Restore(Value),
    Remove(Value),
}

/// Something is not as it was, as long as this lives.
pub(crate) struct Changed(Vec<Undo>);

impl Changed {
    /// A new object.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn new(object: &Value) -> Result<Self> {
        kubectl::create(object)?;
        Ok(Self(vec![Undo::Remove(object.clone())]))
    }

    /// An object that is taken away; `namespace` is empty for what is in none.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn without(object: &str, namespace: &str) -> Result<Self> {
        let before = read(object, namespace)?;
        kubectl::run(&[&place(namespace)[..], &["delete", object, "--wait"]].concat())?;
        Ok(Self(vec![Undo::Restore(before)]))
    }

    /// An object with a merge patch.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn with(object: &str, namespace: &str, patch: &Value) -> Result<Self> {
        let before = read(object, namespace)?;
        let patch = patch.to_string();
        let words = [&place(namespace)[..], &["patch", object, "--type=merge", "-p", &patch]];
        kubectl::run(&words.concat())?;
        Ok(Self(vec![Undo::Restore(before)]))
    }

    /// Both.
    pub(crate) fn and(mut self, mut other: Self) -> Self {
        self.0.append(&mut other.0);
        self
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        for undo in self.0.drain(..).rev() {
            let (object, words) = match &undo {
                Undo::Restore(object) => (object, &["replace", "--force", "-f", "-"][..]),
                Undo::Remove(object) => {
                    (object, &["delete", "--ignore-not-found", "--wait", "-f", "-"][..])
                }
            };
            match kubectl::output(words, Some(&object.to_string())) {
                Ok(output) if output.status.success() => {}
                Ok(output) => eprintln!("{}", String::from_utf8_lossy(&output.stderr)),
                Err(error) => eprintln!("{error:#}"),
            }
        }
    }
}

/// The object without what belongs to the one that was there.
fn read(object: &str, namespace: &str) -> Result<Value> {
    let words = [&place(namespace)[..], &["get", object, "-o", "json"]].concat();
    let mut value = kubectl::json(&words)?;
    for field in ["resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"] {
        value["metadata"].as_object_mut().map(|metadata| metadata.remove(field));
    }
    value.as_object_mut().map(|object| object.remove("status"));
    if object.starts_with("service/") {
        // The same address, or proxies and the API server would ask at another.
        value["spec"].as_object_mut().map(|spec| spec.remove("clusterIPs"));
    }
    Ok(value)
}

fn place(namespace: &str) -> Vec<&str> {
    if namespace.is_empty() { Vec::new() } else { vec!["-n", namespace] }
}

/// The mesh is installed otherwise as long as this lives.
pub(crate) struct Upgraded {
    /// What is applied in the end.
    before: String,
}

impl From<String> for Upgraded {
    /// What `leno upgrade` says while nothing is changed.
    fn from(before: String) -> Self {
        Self { before }
    }
}

impl Drop for Upgraded {
    fn drop(&mut self) {
        if let Err(error) = self.undo() {
            assert!(std::thread::panicking(), "{error:#}");
            eprintln!("{error:#}");
        }
    }
}

impl Upgraded {
    fn undo(&self) -> Result<()> {
        let output = kubectl::output(&["apply", "-f", "-"], Some(&self.before))?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // `kubectl apply` leaves what is not rendered any more.
        if !self.before.contains("\nkind: PodDisruptionBudget\n") {
            let budget = "poddisruptionbudget/leno-control";
            kubectl::run(&["-n", "leno", "delete", budget, "--ignore-not-found"])?;
        }
        alone()
    }
}

/// The control plane is away as long as this lives.
pub(crate) struct NoControl;

/// Takes the control plane away.
pub(crate) fn without_control() -> NoControl {
    let away = NoControl;
    control(&["scale", "deployment/leno-control", "--replicas=0"]);
    let label = "app.kubernetes.io/name=leno-control";
    control(&["wait", "pod", "-l", label, "--for=delete", "--timeout=180s"]);
    away
}

impl Drop for NoControl {
    fn drop(&mut self) {
        control(&["scale", "deployment/leno-control", "--replicas=1"]);
        control(&["rollout", "status", "deployment/leno-control", "--timeout=120s"]);
    }
}

/// The last change of the control plane cannot start, while the one before serves, as long as this lives.
pub(crate) struct Stuck;

/// Gives the control plane an image that is nowhere.
pub(crate) fn stuck_control() -> Stuck {
    let stuck = Stuck;
    control(&["set", "image", "deployment/leno-control", "*=localhost/leno-test-none:1"]);
    stuck
}

impl Drop for Stuck {
    fn drop(&mut self) {
        control(&["rollout", "undo", "deployment/leno-control"]);
        control(&["rollout", "status", "deployment/leno-control", "--timeout=180s"]);
    }
}

fn control(words: &[&str]) {
    if let Err(error) = kubectl::run(&[&["-n", "leno"], words].concat()) {
        assert!(std::thread::panicking(), "{error:#}");
    }
}
