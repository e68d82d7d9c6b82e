//! What is done to a running topology: signals, another control plane, delay and loss, another plan for a worker.

use super::{Bed, LOOK_AGAIN, Pod};
use crate::mesh::{machine, neighbours};
use anyhow::{Context, Result, bail};
use leno_runtime::http_client::{Call, Response};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const CONTROL_RESTART_WAIT: Duration = Duration::from_secs(20);

impl Bed {
    /// Sends the signal to every process of the pod's containers. One that ends is started again by `leno up`.
    ///
    /// # Errors
    /// There is no such pod, or nothing of it runs.
    pub fn kill_pod_app(&self, pod: &str, signal: i32) -> Result<()> {
        let pod = self.pod(pod)?;
        let signal = Signal::try_from(signal)?;
        let mut reached = 0;
        for root in &pod.app_pids {
            for pid in machine::tree(*root) {
                reached += usize::from(kill(Pid::from_raw(pid), signal).is_ok());
            }
        }
        if reached == 0 {
            bail!("no container runs in pod {}", pod.name);
        }
        Ok(())
    }

    /// Kills the control plane and waits until `leno up` has started it again.
    ///
    /// # Errors
    /// This mesh has none, or it does not come back.
    pub fn restart_control(&self) -> Result<()> {
        let before = self.control_pids();
        if before.is_empty() {
            bail!("{} has no control plane to restart", self.choice);
        }
        for pid in &before {
            kill(Pid::from_raw(*pid), Signal::SIGKILL)?;
        }
        let until = Instant::now() + CONTROL_RESTART_WAIT;
        loop {
            let now = self.control_pids();
            if now.iter().any(|pid| !before.contains(pid)) {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("leno-control did not start again");
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Delays and loses what leaves this pod; zeros take it back. The delay is one way: a round trip is longer by as much.
    ///
    /// # Errors
    /// `tc` is missing, or the kernel has no netem; see [`crate::mesh::netem_missing`].
    pub fn netem(&self, pod: &str, delay_ms: f64, loss_share: f64) -> Result<()> {
        if !(0.0..=60_000.0).contains(&delay_ms) || !(0.0..=1.0).contains(&loss_share) {
            bail!("netem: a delay from 0 to 60,000 ms and a loss from 0 to 1");
        }
        let pod = self.pod(pod)?;
        let first = pod.first_pid.with_context(|| format!("pod {} is not running", pod.name))?;
        let clear = delay_ms == 0.0 && loss_share == 0.0;
        let mut words = vec!["qdisc"];
        let (delay, loss) = (format!("{delay_ms}ms"), format!("{}%", loss_share * 100.0));
        if clear {
            words.extend(["del", "dev", "eth0", "root"]);
        } else {
            words.extend([
                "replace", "dev", "eth0", "root", "netem", "delay", &delay, "loss", &loss,
            ]);
        }
        let result = machine::in_network(first, || machine::tc(&words))?;
        match result {
            // Nothing was there to be taken back.
            Err(said) if clear && (said.contains("No such file") || said.contains("zero")) => {
                Ok(())
            }
            Err(said) => bail!("{said}"),
            Ok(()) => Ok(()),
        }
    }

    /// The `leno-worker` of a pod.
    ///
    /// # Errors
    /// The pod runs none with `--admin`.
    pub fn worker(&self, pod: &Pod) -> Result<Worker> {
        let first = pod.first_pid.with_context(|| format!("pod {} is not running", pod.name))?;
        let port = admin_port(&self.generated()?, pod)
            .with_context(|| format!("pod {} runs no leno-worker with --admin=PORT", pod.name))?;
        Ok(Worker { first_pid: first, admin: (pod.ip, port).into() })
    }

    /// Gives the pod's `leno-worker` another plan, on its admin port.
    ///
    /// # Errors
    /// The pod runs no worker with `--admin`, or the worker refuses the plan.
    pub fn set_worker(&self, pod: &str, config: &Value) -> Result<()> {
        let pod = self.pod(pod)?;
        let plan = Call::get("/plan", machine::ANSWER_WAIT, machine::ANSWER_BYTES_MAX)
            .put("application/json", config.to_string());
        let answer = self.worker(&pod)?.ask(&plan)?;
        match answer.status {
            200 => Ok(()),
            status => bail!("the worker of {} answers {status}: {}", pod.name, answer.body.trim()),
        }
    }
}

/// A pod's `leno-worker`, asked on its admin port inside of the pod, so that no proxy is in between.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    first_pid: i32,
    admin: SocketAddr,
}

impl Worker {
    /// Requests that its plan has answered since it started.
    ///
    /// # Errors
    /// It does not answer.
    pub fn requests(&self) -> Result<u64> {
        let stats = Call::get("/stats", machine::COUNT_WAIT, machine::ANSWER_BYTES_MAX);
        let stats: Value = serde_json::from_str(&self.ask(&stats)?.body)?;
        stats["planned_requests"].as_u64().context("the worker does not count planned_requests")
    }

    fn ask(&self, call: &Call) -> Result<Response> {
        Ok(machine::in_network(self.first_pid, || call.tcp_blocking(self.admin))??)
    }
}

/// The admin port of a pod's worker, from its command line.
fn admin_port(generated: &str, pod: &Pod) -> Option<u16> {
    let documents = neighbours::documents(generated).ok()?;
    let of_pod = documents.iter().find(|value| {
        value["kind"] == "Pod"
            && value["metadata"]["name"] == pod.name.as_str()
            && value["metadata"]["namespace"] == pod.namespace.as_str()
    })?;
    let words = of_pod["spec"]["containers"].as_array()?.iter().flat_map(|container| {
        ["command", "args"]
            .into_iter()
            .flat_map(|key| container[key].as_array().into_iter().flatten())
    });
    let words: Vec<&str> = words.filter_map(Value::as_str).collect();
    let at = words.iter().position(|word| *word == "--admin" || word.starts_with("--admin="))?;
    let said = words[at].strip_prefix("--admin=").or_else(|| words.get(at + 1).copied())?;
    said.rsplit(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn the_workers_admin_port() {
        let pod = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            let value = serde_json::json!({"kind": "Pod", "metadata": {"name": "w", "namespace": "n"},
                "spec": {"containers": [{"command": words}]}});
            let pod = Pod {
                name: "w".into(),
                namespace: "n".into(),
                workload: String::new(),
                ip: IpAddr::from([10, 0, 0, 1]),
                ready: true,
                restarts: 0,
                app_pids: Vec::new(),
                proxy_pids: Vec::new(),
                first_pid: None,
            };
            admin_port(&format!("---\n{value}\n"), &pod)
        };
        assert_eq!(pod("leno-worker --admin=9901"), Some(9901));
        assert_eq!(pod("leno-worker --http 1 --admin 0.0.0.0:9902"), Some(9902));
        assert_eq!(pod("leno-worker --http 1"), None);
    }
}
