//! `leno exec`.

use super::choose::choose;
use crate::args::Exec;
use crate::home::{Member, machine};
use anyhow::{Context, bail};
use leno_up::enter::{self, Place};
use leno_up::request::{Reply, Request, ask};
use leno_up::state::Paths;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(state: &Path, exec: &Exec) -> anyhow::Result<ExitCode> {
    let place = match &exec.pod {
        None => match ask(state, &Request::Node)? {
            Reply::Node(pid) => Place::Node(pid),
            other => bail!("leno up answered {other:?}"),
        },
        Some(wanted) => {
            let mut pods = machine::pods(state)?;
            let members: Vec<Member> = pods.iter().cloned().map(machine::member).collect();
            let pod = pods.swap_remove(choose(&members, wanted)?);
            let mut containers = pod.containers.iter();
            let chosen = match &exec.container {
                Some(name) => Some(
                    containers
                        .find(|container| container.name == *name)
                        .with_context(|| format!("pod {} has no container {name:?}", pod.name))?,
                ),
                // Init containers come first and have ended.
                None => containers.rev().find(|container| container.pid.is_some()),
            };
            let running = chosen.and_then(|container| Some((container, container.pid?)));
            let (container, pid) = running.with_context(|| {
                format!("no container of pod {} is running: {}", pod.name, pod.reason)
            })?;
            let paths = Paths::new(state);
            let start = enter::start_of(&paths, &pod.namespace, &pod.name, &container.name)?;
            Place::Container(pid, Box::new(start))
        }
    };
    let code = enter::run(&place, &exec.command)?;
    Ok(ExitCode::from(code))
}
