//! Health probes: what they ask ([`once`]) and what their answers mean ([`Judge`], pure).

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use leno_runtime::http_client::Call;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;

/// When to ask, and how many answers count, with the defaults of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Before the first question.
    pub initial_delay: Duration,
    /// Between questions.
    pub period: Duration,
    /// For one answer.
    pub timeout: Duration,
    /// So many failures in a row are a failure.
    pub failures: u32,
    /// So many successes in a row are a success.
    pub successes: u32,
}

impl Timing {
    #[must_use]
    pub fn of(probe: &Probe) -> Self {
        let seconds = |value: Option<i32>, default: u64| {
            let given = value.and_then(|value| u64::try_from(value).ok());
            Duration::from_secs(given.unwrap_or(default))
        };
        let count = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|n| *n > 0).unwrap_or(default)
        };
        Self {
            initial_delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10).max(Duration::from_secs(1)),
            timeout: seconds(probe.timeout_seconds, 1).max(Duration::from_secs(1)),
            failures: count(probe.failure_threshold, 3),
            successes: count(probe.success_threshold, 1),
        }
    }
}

/// Counts answers; a verdict changes only after enough of the same.
#[derive(Clone, Debug)]
pub struct Judge {
    timing: Timing,
    good: bool,
    streak: u32,
}

impl Judge {
    /// Starts from the verdict that holds before the first answer.
    #[must_use]
    pub fn new(timing: Timing, good: bool) -> Self {
        Self { timing, good, streak: 0 }
    }

    /// Takes an answer; `Some` when the verdict changed by it. A failure after enough failures is said again and again
    /// by `failed_again`.
    pub fn take(&mut self, success: bool) -> Option<bool> {
        if success == self.good {
            self.streak = 0;
            return None;
        }
        self.streak += 1;
        let needed = if success { self.timing.successes } else { self.timing.failures };
        if self.streak < needed {
            return None;
        }
        self.streak = 0;
        self.good = success;
        Some(success)
    }
}

/// What a probe asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// A GET that must answer 200 to 399.
    Http {
        /// Path with query.
        path: String,
        port: u16,
        /// Further headers.
        headers: Vec<(String, String)>,
    },
    /// A connection that must be accepted.
    Tcp(u16),
    /// A program in the container that must end with 0.
    Exec(Vec<String>),
}

/// What a probe of this container asks.
///
/// # Errors
/// It asks nothing that is known, or its port has no number.
pub fn question(probe: &Probe, container: &Container) -> Result<Question, String> {
    if let Some(http) = &probe.http_get {
        if http.scheme.as_deref().is_some_and(|scheme| scheme != "HTTP") {
            return Err("httpGet supports only the scheme HTTP".to_owned());
        }
        let headers = http.http_headers.iter().flatten();
        Ok(Question::Http {
            path: http.path.clone().unwrap_or_else(|| "/".to_owned()),
            port: port(&http.port, container)?,
            headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
        })
    } else if let Some(tcp) = &probe.tcp_socket {
        Ok(Question::Tcp(port(&tcp.port, container)?))
    } else if let Some(exec) = &probe.exec {
        Ok(Question::Exec(exec.command.clone().unwrap_or_default()))
    } else {
        Err("needs httpGet, tcpSocket or exec".to_owned())
    }
}

/// The number of a port given as number or name.
///
/// # Errors
/// The container has no port of this name, or the number is not one of a port.
pub fn port(wanted: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match wanted {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => container
            .ports
            .iter()
            .flatten()
            .find(|port| port.name.as_ref() == Some(name))
            .map(|port| port.container_port)
            .or_else(|| name.parse().ok()),
    };
    number
        .and_then(|number| u16::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("port {wanted:?} of container {:?} has no number", container.name))
}

/// Asks over the network, from the node.
///
/// # Errors
/// Why the answer is a failure, in words for an operator.
pub async fn once(question: &Question, pod: IpAddr, timeout: Duration) -> Result<(), String> {
    match question {
        Question::Tcp(port) => {
            let address = SocketAddr::new(pod, *port);
            match tokio::time::timeout(timeout, TcpStream::connect(address)).await {
                Ok(Ok(_connection)) => Ok(()),
                Ok(Err(error)) => Err(format!("connection to {address}: {error}")),
                Err(_) => Err(format!("no connection to {address} in {} s", timeout.as_secs())),
            }
        }
        Question::Http { path, port, headers } => {
            // As the kubelet sends them, for applications that answer by them.
            let mut get = Call::status_only(path, timeout)
                .header("user-agent", "leno-probe")
                .header("accept", "*/*");
            for (name, value) in headers {
                get = get.header(name, value);
            }
            let answer = get.tcp(SocketAddr::new(pod, *port)).await;
            match answer.map_err(|error| error.to_string())?.status {
                200..=399 => Ok(()),
                status => Err(format!("GET {path} on port {port}: status {status}")),
            }
        }
        Question::Exec(_) => Err("asked in the container, not over the network".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn verdicts() {
        let timing = |probe| Timing::of(&serde_json::from_value(probe).unwrap());
        // Answers: `+` and `-`; verdicts: `R` became good, `X` became bad, `.` nothing changed.
        for (probe, answers, expected) in [
            (json!({}), "+", "R"),
            (json!({}), "--+-", "..R."),
            (json!({}), "+---", "R..X"),
            (json!({}), "+--+---", "R.....X"),
            (json!({"successThreshold": 2, "failureThreshold": 1}), "+-++-", "...RX"),
        ] {
            let mut judge = Judge::new(timing(probe), false);
            let seen: String = answers
                .chars()
                .map(|answer| match judge.take(answer == '+') {
                    Some(true) => 'R',
                    Some(false) => 'X',
                    None => '.',
                })
                .collect();
            assert_eq!(seen, expected, "{answers}");
        }
        assert_eq!(timing(json!({})).period, Duration::from_secs(10));
    }

    #[test]
    fn questions() {
        let container: Container = serde_json::from_value(
            json!({"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}),
        )
        .unwrap();
        let ask = |probe| question(&serde_json::from_value(probe).unwrap(), &container);
        assert_eq!(ask(json!({"tcpSocket": {"port": "http"}})), Ok(Question::Tcp(8080)));
        assert_eq!(ask(json!({"exec": {"command": ["a"]}})), Ok(Question::Exec(vec!["a".into()])));
        assert!(ask(json!({"tcpSocket": {"port": "grpc"}})).is_err());
        assert!(ask(json!({})).is_err());
        assert!(ask(json!({"httpGet": {"port": 1, "scheme": "HTTPS"}})).is_err());
    }
}
