//! Pods of every shape: injection adds and nothing else, twice is once, and out again is as before.

use leno_inject::file::{Namespaces, inject_file, uninject_file};
use leno_inject::scope::{Namespace, Wish};
use leno_inject::{Injected, Mesh, Outcome, inject, uninject};
use leno_manifest::patch::apply;
use serde_json::{Value, json};

/// The seed of a failure is printed.
struct Random(fastrand::Rng);

impl Random {
    fn seeded(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    fn below(&mut self, count: u64) -> u64 {
        self.0.u64(..count)
    }

    fn word(&mut self) -> String {
        const WORDS: [&str; 12] =
            ["a", "yes", "~", "1", "b: c", "- x", "# no", "", "ä\n|", "0644", "\"", "leno"];
        WORDS[self.below(12) as usize].to_owned()
    }

    fn value(&mut self, depth: u64) -> Value {
        match self.below(if depth == 0 { 4 } else { 6 }) {
            0 => json!(null),
            1 => json!(self.below(100)),
            2 => json!(self.below(2) == 0),
            3 => json!(self.word()),
            4 => (0..self.below(3)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object(
                (0..self.below(3)).map(|_| (self.word(), self.value(depth - 1))).collect(),
            ),
        }
    }

    /// Absent, nothing in some form, or something.
    fn field(
        &mut self,
        object: &mut Value,
        name: &str,
        empty: &Value,
        mut some: impl FnMut(&mut Self) -> Value,
    ) {
        match self.below(5) {
            0 => {}
            1 => object[name] = Value::Null,
            2 => object[name] = empty.clone(),
            _ => object[name] = some(self),
        }
    }

    fn items(&mut self, prefix: &str) -> Value {
        (0..=self.below(3))
            .map(|number| {
                let mut item = json!({"name": format!("{prefix}-{number}")});
                if self.below(2) == 0 {
                    item["other"] = self.value(3);
                }
                item
            })
            .collect()
    }

    fn pod(&mut self) -> Value {
        let mut spec = json!({"containers": self.items("app")});
        self.field(&mut spec, "initContainers", &json!([]), |random| random.items("init"));
        self.field(&mut spec, "volumes", &json!([]), |random| random.items("volume"));
        let mut pod = json!({"spec": spec});
        self.field(&mut pod, "metadata", &json!({}), |random| {
            let mut metadata = json!({});
            random.field(
                &mut metadata,
                "annotations",
                &json!({}),
                |random| json!({"x": random.word(), "config.leno.dev/access-log": "json"}),
            );
            random.field(&mut metadata, "labels", &json!({}), |random| json!({"y": random.word()}));
            metadata
        });
        pod
    }

    fn object(&mut self) -> Value {
        let mut template = self.pod();
        match self.below(4) {
            0 => {
                template["apiVersion"] = "v1".into();
                template["kind"] = "Pod".into();
                template
            }
            1 => {
                json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": self.word()},
                "spec": {"jobTemplate": {"spec": {"template": template}}}})
            }
            2 => json!({"apiVersion": "v1", "kind": "List", "items": [self.value(2),
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {"template": template}}, self.value(2)]}),
            _ => {
                json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": {"template": template}})
            }
        }
    }
}

#[test]
fn out_again_is_as_before() {
    let mesh = Mesh::default();
    let namespace = Namespace { name: "shop", ..Namespace::default() };
    for seed in 1..3000_u64 {
        let pod = Random::seeded(seed).pod();
        let Outcome::Inject(Injected { patch, .. }) =
            inject(&pod, &namespace, Wish::Enabled, &mesh)
        else {
            panic!("seed {seed}: {pod}");
        };
        let mut injected = pod.clone();
        apply(&mut injected, &patch).unwrap();
        let again = inject(&injected, &namespace, Wish::Enabled, &mesh);
        assert_eq!(again, Outcome::Skip("it already has leno-proxy".to_owned()), "seed {seed}");
        assert_eq!(injected["spec"]["initContainers"][1]["name"], "leno-proxy", "seed {seed}");
        assert_eq!(injected["spec"]["containers"], pod["spec"]["containers"], "seed {seed}");
        let undo = uninject(&injected).unwrap();
        apply(&mut injected, &undo).unwrap();
        assert_eq!(injected, pod, "seed {seed}");
        assert_eq!(uninject(&injected), None, "seed {seed}");
    }
}

#[test]
fn files_too() {
    for seed in 1..400_u64 {
        let mut random = Random::seeded(seed);
        let objects = [random.object(), random.object()];
        let yaml = |object: &Value| serde_saphyr::to_string(object).unwrap();
        let json = |object: &Value| serde_json::to_string_pretty(object).unwrap() + "\n";
        for write in [&yaml as &dyn Fn(&Value) -> String, &json] {
            let file = objects.iter().map(write).collect::<Vec<_>>().join("---\n");
            let done = inject_file(&file, "shop", &Namespaces::new(), &Mesh::default());
            assert!(done.text.contains("leno-proxy"), "seed {seed}:\n{file}\n{:?}", done.reports);
            let rewritten = done.reports.iter().any(|report| !report.warnings.is_empty());
            let back = uninject_file(&done.text);
            let values = |file: &str| -> Vec<_> {
                let documents = leno_manifest::documents(file);
                documents.iter().map(|document| leno_manifest::read(document.text)).collect()
            };
            assert_eq!(values(&back.text), values(&file), "seed {seed}");
            assert!(!rewritten, "seed {seed}: written anew\n{file}\n{}", done.text);
        }
    }
}
