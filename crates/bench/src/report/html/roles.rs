//! Who burns the CPU of one request: every role in one bar, so that work moved from a sidecar elsewhere still shows.

use super::{Panel, choice, variant};
use crate::report::axis::Axis;
use crate::report::group::{Group, groups, over_runs, sum};
use crate::report::svg::{Anchor, Svg, escape};
use crate::report::words;
use crate::result::{Campaign, Cell, Resources, Used, is_cpu_known};

/// Which processes.
type Role = fn(&Resources) -> &[Used];

const ROLES: [(&str, &str, Role); 5] = [
    ("proxies", "r-proxy", |all| &all.proxy),
    ("application", "r-app", |all| &all.app),
    ("control plane", "r-control", |all| &all.control),
    ("load generator", "r-generator", |all| &all.generator),
    ("rest of the machine (kernel)", "r-rest", |all| &all.node_residual),
];

const WIDTH: f64 = 1120.0;
const ROW: f64 = 30.0;

/// Microseconds per request, by role; nothing where nothing was sampled.
pub(super) fn panel(campaign: &Campaign) -> Option<Panel> {
    let mut body = String::new();
    let choices = [("all", "everything"), ("own", "without the rest of the machine")];
    for (shown, (key, _)) in [ROLES.len(), ROLES.len() - 1].into_iter().zip(choices) {
        let mut drawings = String::new();
        for group in groups(campaign).iter().filter(|group| group.leads) {
            if let Some(drawing) = draw(group, shown) {
                drawings += &format!("<h3>{}</h3>{drawing}", escape(&group.title()));
            }
        }
        if drawings.is_empty() {
            return None;
        }
        body += &variant(&[("rest", key)], key == "all", &drawings);
    }
    let keys: String = ROLES
        .iter()
        .map(|(name, class, _)| format!("<span class=\"mesh {class}\"><i></i>{name}</span>"))
        .collect();
    let about = "CPU µs per request of everything that runs, mean of the repetitions. It shows costs that a mesh moves from its proxies into the kernel or the application. The rest is everything else on the machine, with other programs: it means little on a busy machine."
        .into();
    Some(Panel {
        id: "roles",
        title: "CPU by role",
        about,
        body: format!(
            "<div class=\"choices\">{}</div><div class=\"legend\">{keys}</div>{body}",
            choice("rest", "show", &choices)
        ),
    })
}

/// Each role's microseconds per request.
fn parts(cell: &Cell) -> Vec<f64> {
    let part = |role: Role| {
        over_runs(cell, |run| {
            let (answered, used) = (run.counts.completed, role(&run.resources));
            (answered > 0 && is_cpu_known(used))
                .then_some(sum(used, |one| one.cpu_s)? * 1e6 / answered as f64)
        })
    };
    ROLES.iter().map(|(_, _, role)| part(*role).map_or(0.0, |[_, mean, _]| mean.max(0.0))).collect()
}

/// One bar for each mesh, of so many roles from the first on.
fn draw(group: &Group<'_>, shown: usize) -> Option<String> {
    let rows: Vec<(&str, Vec<f64>)> = group
        .cells
        .iter()
        .map(|cell| (cell.mesh.as_str(), parts(cell)[..shown].to_vec()))
        .filter(|(_, parts)| parts.iter().sum::<f64>() > 0.0)
        .collect();
    if rows.is_empty() {
        return None;
    }
    let axis = Axis::linear(rows.iter().map(|(_, parts)| parts.iter().sum()));
    let (left, width) = (110.0, WIDTH - 190.0);
    let height = 8.0 + ROW * rows.len() as f64;
    let mut svg = Svg::new(WIDTH, height + 26.0, &format!("CPU by role, {}", group.words));
    for (value, _) in axis.ticks() {
        let x = left + width * axis.place(value);
        svg.line((x, 4.0), (x, height), "grid");
        svg.text((x, height + 17.0), Anchor::Middle, "tick", &words::tick(value));
    }
    svg.text((left + width + 76.0, height + 17.0), Anchor::End, "unit", "µs");
    for (index, (mesh, parts)) in rows.iter().enumerate() {
        let y = 8.0 + ROW * index as f64;
        svg.text((left - 10.0, y + 15.0), Anchor::End, "label", &words::mesh(mesh));
        let mut done = 0.0;
        for (part, (name, class, _)) in parts.iter().zip(ROLES) {
            let (from, to) =
                (left + width * axis.place(done), left + width * axis.place(done + part));
            let text = words::figure(*part);
            let tip = format!("{}: {name} {text} µs", words::mesh(mesh));
            svg.rect([from, y, to - from, ROW - 8.0], &format!("bar {class}"), &tip);
            if to - from > 34.0 {
                svg.text((f64::midpoint(from, to), y + 15.0), Anchor::Middle, "inside", &text);
            }
            done += part;
        }
        let x = left + width * axis.place(done) + 7.0;
        svg.text((x, y + 15.0), Anchor::Start, "value left", &words::figure(done));
    }
    Some(svg.finish())
}
