//! A namespace for one test, with everything in it gone when the test ends. Of a test that fails it shows first how things stand.

use crate::ground::kubectl;
use anyhow::Result;
use leno_tests::wait::until;
use serde_json::{Value, json};
use std::time::Duration;

/// For anything to get ready: a busy machine needs some seconds for a pod.
pub(crate) const READY_WAIT: Duration = Duration::from_secs(180);

/// A namespace.
pub(crate) struct Place {
    pub(crate) name: String,
}

impl Place {
    /// A namespace whose pods get a proxy.
    pub(crate) fn meshed(name: &str) -> Self {
        Self::labelled(name, &json!({"leno.dev/inject": "enabled"}))
    }

    /// One whose pods do not.
    pub(crate) fn plain(name: &str) -> Self {
        Self::labelled(name, &json!({}))
    }

    fn labelled(name: &str, labels: &Value) -> Self {
        // What a killed run has left.
        remove(name);
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        });
        kubectl::create(&namespace).expect("a namespace is made");
        let place = Self { name: name.to_owned() };
        // Before that, pods are refused that name no other account.
        until("the default account", READY_WAIT, || {
            place.kubectl(&["get", "serviceaccount", "default"]).ok()
        });
        place
    }

    /// `kubectl` in this namespace.
    ///
    /// # Errors
    /// What it says when it fails.
    pub(crate) fn kubectl(&self, words: &[&str]) -> Result<String> {
        kubectl::run(&[&["-n", &self.name], words].concat())
    }

    /// The same, as JSON.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) fn json(&self, words: &[&str]) -> Result<Value> {
        kubectl::json(&[&["-n", &self.name], words, &["-o", "json"]].concat())
    }

    /// Applies objects in this namespace.
    pub(crate) fn apply(&self, objects: &[Value]) {
        self.try_apply(objects).expect("the API server takes these objects");
    }

    /// The same, where it may be refused.
    ///
    /// # Errors
    /// The API server's words.
    pub(crate) fn try_apply(&self, objects: &[Value]) -> Result<String> {
        let mut objects = objects.to_vec();
        for object in &mut objects {
            object["metadata"]["namespace"] = self.name.clone().into();
        }
        kubectl::apply(&objects)
    }

    /// Until all replicas of a workload are ready, as `deployment/web`.
    pub(crate) fn rolled_out(&self, workload: &str) {
        let wait = format!("--timeout={}s", READY_WAIT.as_secs());
        self.kubectl(&["rollout", "status", workload, &wait]).expect("it gets ready");
    }

    /// Until the object has this in its status: `kubectl wait --for`.
    pub(crate) fn wait(&self, object: &str, condition: &str) {
        let wait = format!("--timeout={}s", READY_WAIT.as_secs());
        let condition = format!("--for={condition}");
        self.kubectl(&["wait", object, &condition, &wait]).expect("it comes to that");
    }

    /// Names of the running pods with this label, by name.
    pub(crate) fn pods(&self, label: &str) -> Vec<String> {
        let list = self.json(&["get", "pods", "-l", label]).expect("pods are listed");
        let alive = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        let pods = list["items"].as_array().into_iter().flatten().filter(alive);
        pods.filter_map(|pod| Some(pod["metadata"]["name"].as_str()?.to_owned())).collect()
    }

    /// The address of a Service inside the cluster.
    pub(crate) fn cluster_ip(&self, service: &str) -> String {
        let service = self.json(&["get", "service", service]).expect("the Service is there");
        service["spec"]["clusterIP"].as_str().expect("a Service with an address").to_owned()
    }

    /// How a pod that ends by itself ended.
    pub(crate) fn ended(&self, pod: &str, limit: Duration) -> String {
        until(&format!("the end of pod {pod}"), limit, || {
            std::thread::sleep(Duration::from_millis(300));
            let pod = self.json(&["get", "pod", pod]).ok()?;
            let phase = pod["status"]["phase"].as_str()?;
            ["Succeeded", "Failed"].contains(&phase).then(|| phase.to_owned())
        })
    }

    fn show(&self) {
        eprintln!("\nHow things stood in {}:", self.name);
        for words in [&["get", "pods,jobs,endpointslices", "-o", "wide"][..], &["get", "events"]] {
            match self.kubectl(words) {
                Ok(text) => eprintln!("{text}"),
                Err(error) => eprintln!("{error:#}"),
            }
        }
        let list = self.json(&["get", "pods"]).unwrap_or_default();
        for pod in list["items"].as_array().into_iter().flatten() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let words = ["logs", name, "--all-containers", "--prefix", "--tail=15"];
            eprintln!("{}", self.kubectl(&words).unwrap_or_else(|error| format!("{error:#}")));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show();
        }
        remove(&self.name);
    }
}

fn remove(name: &str) {
    let words = ["delete", "namespace", name, "--ignore-not-found", "--wait", "--timeout=120s"];
    if let Err(error) = kubectl::run(&words) {
        eprintln!("{error:#}");
    }
}
