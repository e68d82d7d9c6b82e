//! Objects in an API server: many pods that no node runs, Services of them, and slices that name them.

use anyhow::{Context, Result, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use std::time::Duration;

/// Requests at once.
const AT_ONCE: usize = 48;
/// Namespaces, as one alone is no cluster.
const NAMESPACES: usize = 10;

/// What is made.
pub(crate) struct Crowd {
    pub(crate) client: Client,
    pub(crate) services: usize,
    pub(crate) pods_per_service: usize,
}

impl Crowd {
    pub(crate) fn pods(&self) -> usize {
        self.services * self.pods_per_service
    }

    /// Where a Service lives, and its name.
    pub(crate) fn place(service: usize) -> (String, String) {
        (format!("leno-bench-{}", service % NAMESPACES), format!("service-{service}"))
    }

    /// The control plane's own namespace. None of its pods is in it: another mesh of the cluster writes its roots to where meshed pods are.
    pub(crate) fn own() -> String {
        "leno-bench-own".to_owned()
    }

    fn namespaces() -> impl Iterator<Item = String> {
        (0..NAMESPACES).map(|number| format!("leno-bench-{number}")).chain([Self::own()])
    }

    async fn ask(&self, method: Method, path: String, body: Value) -> Result<Value> {
        let kind = if method == Method::PATCH {
            "application/strategic-merge-patch+json"
        } else {
            "application/json"
        };
        let request = http::Request::builder()
            .method(method.clone())
            .uri(&path)
            .header("content-type", kind)
            .body(if body.is_null() { Vec::new() } else { body.to_string().into_bytes() })?;
        match self.client.request(request).await {
            Err(kube::Error::Api(status)) if status.code == 409 && method == Method::POST => {
                Ok(Value::Null) // There from the last time.
            }
            other => other.with_context(|| format!("{method} {path}")),
        }
    }

    pub(crate) async fn post(&self, path: String, body: Value) -> Result<()> {
        self.ask(Method::POST, path, body).await.map(drop)
    }

    pub(crate) async fn make(&self) -> Result<()> {
        for name in Self::namespaces() {
            self.post("/api/v1/namespaces".into(), json!({"metadata": {"name": name}})).await?;
            let account = format!("/api/v1/namespaces/{name}/serviceaccounts");
            self.post(account, json!({"metadata": {"name": "bench"}})).await?;
        }
        // The last of a Service's objects is its slice: what is there from a run that was cut off is not made again.
        let mut missing = Vec::new();
        for service in 0..self.services {
            let (namespace, name) = Self::place(service);
            let path =
                format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}");
            if self.ask(Method::GET, path, Value::Null).await.is_err() {
                missing.push(service);
            }
        }
        let all = stream::iter(missing).map(|service| self.make_service(service));
        all.buffer_unordered(AT_ONCE).try_collect::<()>().await
    }

    /// What a control plane needs in its own namespace. The lease is held by nobody that runs: this one only serves, and writes nothing
    /// into a cluster that others use.
    pub(crate) async fn make_own(&self, issuer: &str, anchors: &str) -> Result<()> {
        let namespace = format!("/api/v1/namespaces/{}", Self::own());
        let secret = json!({
            "metadata": {"name": "leno-identity-issuer"},
            "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": issuer, "tls.key": issuer},
        });
        self.post(format!("{namespace}/secrets"), secret).await?;
        let anchors = json!({
            "metadata": {"name": "leno-trust-anchors"},
            "data": {"trust-anchors.pem": anchors},
        });
        self.post(format!("{namespace}/configmaps"), anchors).await?;
        let lease = json!({
            "metadata": {"name": "leno-control"},
            "spec": {"holderIdentity": "the benchmark", "leaseDurationSeconds": 86_400},
        });
        let own = Self::own();
        self.post(format!("/apis/coordination.k8s.io/v1/namespaces/{own}/leases"), lease).await
    }

    async fn make_service(&self, service: usize) -> Result<()> {
        let (namespace, name) = Self::place(service);
        let body = json!({
            "metadata": {"name": name, "labels": {"service.kubernetes.io/service-proxy-name": "none"}},
            "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080, "appProtocol": "http"}]},
        });
        self.post(format!("/api/v1/namespaces/{namespace}/services"), body).await?;
        let pods: Vec<usize> = (0..self.pods_per_service).collect();
        for pod in &pods {
            self.make_pod(service, *pod).await?;
        }
        let endpoints: Vec<Value> = pods.iter().map(|pod| endpoint(service, *pod, true)).collect();
        let body = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "leno-bench"}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": endpoints,
        });
        let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
        self.post(path, body).await
    }

    async fn make_pod(&self, service: usize, pod: usize) -> Result<()> {
        let (namespace, _) = Self::place(service);
        let name = pod_name(service, pod);
        let containers = |name: &str| {
            json!({
                "name": name, "image": "registry.example/shop/service:1.2.3",
                "env": (0..10).map(|n| json!({"name": format!("SETTING_{n}"), "value": "some value of a setting"})).collect::<Vec<_>>(),
                "ports": [{"name": "http", "containerPort": 8080}],
                "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
            })
        };
        let mut proxy = containers("leno-proxy");
        proxy["restartPolicy"] = json!("Always");
        proxy["ports"] = json!([{"name": "leno-admin", "containerPort": 4191}]);
        let body = json!({
            "metadata": {
                "name": name,
                "labels": {"app": format!("service-{service}"), "pod-template-hash": "5d4f8c7b9"},
                "annotations": {"leno.dev/meshed": "true"},
                "ownerReferences": [],
            },
            // No scheduler of this name: no node runs it, and no controller takes it away.
            "spec": {"schedulerName": "nobody", "serviceAccountName": "bench", "initContainers": [proxy], "containers": [containers("app")]},
        });
        self.post(format!("/api/v1/namespaces/{namespace}/pods"), body).await?;
        let ip = address(service, pod);
        let status = json!({"status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
        }});
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
        self.ask(Method::PATCH, path, status).await.map(drop)
    }

    /// Changes one endpoint of a Service.
    pub(crate) async fn set_ready(&self, service: usize, ready: bool) -> Result<()> {
        let (namespace, name) = Self::place(service);
        let pods = 0..self.pods_per_service;
        let endpoints: Vec<Value> =
            pods.map(|pod| endpoint(service, pod, ready || pod != 0)).collect();
        let path =
            format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}");
        self.ask(Method::PATCH, path, json!({"endpoints": endpoints})).await.map(drop)
    }

    /// Takes the pods away, and nothing else.
    pub(crate) async fn remove_pods(&self) -> Result<()> {
        for name in Self::namespaces() {
            // At once: nobody is there to end them.
            let pods = format!("/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0");
            self.ask(Method::DELETE, pods, Value::Null).await?;
        }
        Ok(())
    }

    /// Takes everything away, and waits until the namespaces are gone.
    pub(crate) async fn remove(&self) -> Result<()> {
        for name in Self::namespaces() {
            let namespace = format!("/api/v1/namespaces/{name}");
            // At once: nobody is there to end them.
            let pods = format!("{namespace}/pods?gracePeriodSeconds=0");
            let _ = self.ask(Method::DELETE, pods, Value::Null).await;
            let _ = self.ask(Method::DELETE, namespace, Value::Null).await;
        }
        for _ in 0..600 {
            let all = self.ask(Method::GET, "/api/v1/namespaces".into(), Value::Null).await?;
            let left = all["items"].as_array().into_iter().flatten().filter(|namespace| {
                namespace["metadata"]["name"].as_str().is_some_and(|n| n.starts_with("leno-bench-"))
            });
            if left.count() == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        bail!("the namespaces leno-bench-… do not go away")
    }
}

fn pod_name(service: usize, pod: usize) -> String {
    format!("service-{service}-5d4f8c7b9-{pod}")
}

fn address(service: usize, pod: usize) -> String {
    let number = service * 100 + pod;
    format!("10.{}.{}.{}", 100 + number / 62_500, number / 250 % 250, number % 250 + 1)
}

fn endpoint(service: usize, pod: usize, ready: bool) -> Value {
    json!({
        "addresses": [address(service, pod)],
        "conditions": {"ready": ready, "serving": ready, "terminating": false},
        "targetRef": {"kind": "Pod", "name": pod_name(service, pod), "namespace": Crowd::place(service).0},
    })
}
