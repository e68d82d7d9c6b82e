//! What a response, or the end of a request, shows of its endpoint.

use crate::ending::Ending;

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Given up by the client; it counts only if it already took longer than usual.
    Abandoned,
    /// No answer, or one that says "not me": 5xx, a failed gRPC call.
    Failure,
    /// An answer.
    Success,
    /// The endpoint limits its clients: 429, `RESOURCE_EXHAUSTED`.
    Throttled,
}

/// gRPC codes of an endpoint that fails, as linkerd counts them: DeadlineExceeded, PermissionDenied, Internal, Unavailable, DataLoss.
const GRPC_FAILURES: [u16; 5] = [4, 7, 13, 14, 15];
const GRPC_RESOURCE_EXHAUSTED: u16 = 8;

impl Outcome {
    /// What a response says about the endpoint, by its status and its gRPC status.
    #[must_use]
    pub fn of_response(status: u16, grpc: Option<u16>) -> Self {
        match (status, grpc) {
            (429, _) | (_, Some(GRPC_RESOURCE_EXHAUSTED)) => Self::Throttled,
            (500.., _) => Self::Failure,
            (_, Some(code)) if GRPC_FAILURES.contains(&code) => Self::Failure,
            _ => Self::Success,
        }
    }

    /// What the end of a request or connection says about the endpoint.
    #[must_use]
    pub fn of_ending(ending: Ending) -> Self {
        match ending {
            Ending::Complete => Self::Success,
            Ending::ClientClosed | Ending::ClientReset | Ending::DeadlineExceeded => {
                Self::Abandoned
            }
            _ => Self::Failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_responses_say() {
        let check = |status, grpc, expected| {
            assert_eq!(Outcome::of_response(status, grpc), expected, "{status} {grpc:?}");
        };
        check(200, None, Outcome::Success);
        check(404, None, Outcome::Success);
        check(429, None, Outcome::Throttled);
        check(500, None, Outcome::Failure);
        check(200, Some(0), Outcome::Success);
        check(200, Some(5), Outcome::Success);
        check(200, Some(8), Outcome::Throttled);
        check(200, Some(14), Outcome::Failure);
    }
}
