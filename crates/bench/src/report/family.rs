//! Loads that differ in one number only: a rate, connections, servers. What a load curve is made of, and its knee. Pure.

use super::compared::merged;
use super::group::{Group, counted, over_runs};
use super::words;
use crate::result::{Cell, Run};

/// Answers as a share of what was due, below which a mesh is past its knee.
pub(super) const ANSWERED_MIN: f64 = 0.98;
/// The p99 past the knee is more than so many times the smallest of the rates below.
pub(super) const SLOWER_MAX: f64 = 5.0;
/// Points that the seconds of one ramp are put together to.
const RAMP_POINTS: usize = 10;

/// Groups that differ in one parameter, by its rising value.
#[derive(Debug)]
pub(super) struct Family<'a> {
    /// The parameter: `rate`, `connections`, `replicas echo`, …
    pub(super) key: String,
    /// What they have in common, in words.
    pub(super) words: String,
    pub(super) members: Vec<(f64, &'a Group<'a>)>,
}

/// One point of a load curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// Requests per second that were due, and that were answered.
    pub(super) offered: f64,
    pub(super) achieved: f64,
    /// Milliseconds; absent with too few samples.
    pub(super) p99: Option<f64>,
}

/// All families of two groups or more.
pub(super) fn families<'a>(groups: &'a [Group<'a>]) -> Vec<Family<'a>> {
    let mut families: Vec<Family<'a>> = Vec::new();
    for group in groups.iter().filter(|group| group.leads) {
        for (key, value) in &group.cells[0].params {
            let Some(value) = words::number(value).filter(|_| is_swept(key)) else { continue };
            let words = without(group.cells[0], key);
            let same = |family: &&mut Family<'a>| {
                let other = family.members[0].1;
                family.key == *key
                    && family.words == words
                    && (other.mode, other.open) == (group.mode, group.open)
            };
            if let Some(family) = families.iter_mut().find(same) {
                family.members.push((value, group));
            } else {
                families.push(Family { key: key.clone(), words, members: vec![(value, group)] });
            }
        }
    }
    for family in &mut families {
        family.members.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    families.retain(|family| family.members.len() > 1);
    families
}

fn is_swept(key: &str) -> bool {
    ["rate", "connections", "concurrency", "streams", "body_bytes"].contains(&key)
        || key.starts_with("replicas")
}

/// The cell in words, but for one parameter.
fn without(cell: &Cell, key: &str) -> String {
    let mut params = cell.params.clone();
    params.remove(key);
    words::cell(&Cell { load: cell.load.clone(), params, ..Cell::default() })
}

/// The meshes of a family, in the order of every panel.
pub(super) fn meshes<'a>(family: &Family<'a>) -> Vec<&'a str> {
    let mut meshes: Vec<&str> = Vec::new();
    for cell in family.members.iter().flat_map(|(_, group)| &group.cells) {
        if !meshes.contains(&cell.mesh.as_str()) && counted(cell).next().is_some() {
            meshes.push(&cell.mesh);
        }
    }
    meshes.sort_by_key(|mesh| words::place(mesh));
    meshes
}

/// What was due and what came of it, of the repetitions that count.
pub(super) fn load(cell: &Cell) -> Option<Load> {
    let per_second = |count: fn(&Run) -> u64| {
        let rate = over_runs(cell, |run| {
            let seconds = run.phases.get("measure").copied().filter(|seconds| *seconds > 0.0)?;
            Some(count(run) as f64 / seconds)
        });
        rate.map(|[_, mean, _]| mean)
    };
    Some(Load {
        offered: per_second(|run| run.counts.offered)?,
        achieved: per_second(|run| run.counts.completed)?,
        p99: merged(cell, "p99").filter(|p99| p99.quotable).map(|p99| p99.v),
    })
}

/// The last point up to which a mesh keeps up: which one it is, by its place. Points by rising rate. Nothing where the
/// first one is past it already.
pub(super) fn knee(points: &[Load]) -> Option<usize> {
    let mut smallest = f64::INFINITY;
    let holds = |point: &Load| {
        let slow = point.p99.is_some_and(|p99| p99 > SLOWER_MAX * smallest);
        smallest = smallest.min(point.p99.unwrap_or(f64::INFINITY));
        point.achieved >= ANSWERED_MIN * point.offered && !slow
    };
    points.iter().map(holds).take_while(|holds| *holds).count().checked_sub(1)
}

/// Whether rates change within a repetition.
pub(super) fn is_ramp(cell: &Cell) -> bool {
    let arrival = cell.params.get("arrival").map(words::plain);
    arrival.is_some_and(|arrival| ["ramp", "steps"].iter().any(|word| arrival.contains(word)))
}

/// The load curve within ramps: seconds up to the last of the greatest rate, put together by what was due in them.
/// What comes after is what a queue has left, and belongs to no rate.
pub(super) fn ramp(cell: &Cell) -> Vec<Load> {
    let mut seconds: Vec<(f64, f64, f64)> = Vec::new();
    for run in counted(cell) {
        let series = &run.series_1s;
        let most = series.offered.iter().copied().fold(0.0, f64::max);
        let Some(last) = series.offered.iter().rposition(|due| *due >= 0.9 * most) else {
            continue;
        };
        let all = series.offered.iter().zip(&series.rps).zip(&series.p99).take(last + 1);
        seconds.extend(all.map(|((due, done), p99)| (*due, *done, *p99)));
    }
    seconds.retain(|(due, ..)| *due > 0.0);
    seconds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let each = seconds.len().div_ceil(RAMP_POINTS).max(1);
    let mean = |chunk: &[(f64, f64, f64)], of: fn(&(f64, f64, f64)) -> f64| {
        chunk.iter().map(of).sum::<f64>() / chunk.len() as f64
    };
    let point = |chunk: &[(f64, f64, f64)]| {
        let mut p99: Vec<f64> = chunk.iter().map(|second| second.2).collect();
        p99.sort_by(f64::total_cmp);
        Load {
            offered: mean(chunk, |second| second.0),
            achieved: mean(chunk, |second| second.1),
            p99: p99.get(p99.len() / 2).copied(),
        }
    };
    seconds.chunks(each).map(point).collect()
}

/// Cells whose rate changes within a repetition, with their groups.
pub(super) fn ramps<'a>(groups: &'a [Group<'a>]) -> Vec<&'a Group<'a>> {
    let ramped = |group: &&Group<'a>| group.leads && group.cells.iter().any(|cell| is_ramp(cell));
    groups.iter().filter(ramped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::group::groups;
    use crate::result::Campaign;
    use serde_json::json;

    fn point(offered: f64, achieved: f64, p99: f64) -> Load {
        Load { offered, achieved, p99: (p99 > 0.0).then_some(p99) }
    }

    #[test]
    fn knees() {
        //     offered, achieved, p99                                                     the last that holds
        check(&[(100.0, 100.0, 2.0), (200.0, 199.0, 2.5), (400.0, 400.0, 9.0)], Some(2));
        check(&[(100.0, 100.0, 2.0), (200.0, 199.0, 2.5), (400.0, 300.0, 3.0)], Some(1));
        check(&[(100.0, 100.0, 2.0), (200.0, 199.0, 10.5)], Some(0));
        // Cold at first: against the smallest below, not the first.
        check(&[(20.0, 20.0, 8.0), (200.0, 200.0, 1.0), (400.0, 400.0, 6.0)], Some(1));
        // Once past it, always past it.
        check(&[(100.0, 50.0, 2.0), (200.0, 200.0, 2.0)], None);
        check(&[(100.0, 100.0, 0.0), (200.0, 200.0, 2.0)], Some(1));
        check(&[], None);
    }

    #[track_caller]
    fn check(points: &[(f64, f64, f64)], expected: Option<usize>) {
        let points: Vec<Load> = points.iter().map(|(a, b, c)| point(*a, *b, *c)).collect();
        assert_eq!(knee(&points), expected);
    }

    fn cell(mesh: &str, params: &[(&str, serde_json::Value)]) -> Cell {
        let params = params.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let mut run = Run { valid: true, ..Run::default() };
        run.phases.insert("measure".into(), 2.0);
        (run.counts.offered, run.counts.completed) = (200, 190);
        Cell {
            mesh: mesh.into(),
            load: "main".into(),
            mode: "honest".into(),
            params,
            runs: vec![run],
            ..Cell::default()
        }
    }

    #[test]
    fn loads_that_differ_in_one_number_are_a_family() {
        let both = |rate, servers| {
            let params = [
                ("rate", json!(rate)),
                ("connections", json!(8)),
                ("replicas echo", json!(servers)),
            ];
            [cell("none", &params), cell("leno", &params)]
        };
        let campaign = Campaign {
            cells: [both(200, 1), both(20, 1), both(200, 4)].concat(),
            ..Campaign::default()
        };
        let groups = groups(&campaign);
        let seen: Vec<String> = families(&groups)
            .iter()
            .map(|family| {
                let values: Vec<f64> = family.members.iter().map(|(value, _)| *value).collect();
                format!("{} {values:?} of {}", family.key, meshes(family).join(","))
            })
            .collect();
        assert_eq!(
            seen,
            ["rate [20.0, 200.0] of none,leno", "replicas echo [1.0, 4.0] of none,leno"]
        );
        let load = load(&campaign.cells[0]).expect("it ran");
        assert_eq!((load.offered, load.achieved, load.p99), (100.0, 95.0, None));
    }

    #[test]
    fn a_ramp_is_read_up_to_its_top() {
        let mut cell = cell("leno", &[("arrival", json!("ramp"))]);
        let series = &mut cell.runs[0].series_1s;
        series.offered = vec![10.0, 100.0, 100.0, 10.0];
        series.rps = vec![10.0, 60.0, 70.0, 80.0];
        series.p99 = vec![1.0, 5.0, 7.0, 9.0];
        assert_eq!(
            ramp(&cell),
            [point(10.0, 10.0, 1.0), point(100.0, 60.0, 5.0), point(100.0, 70.0, 7.0)]
        );
        assert!(is_ramp(&cell) && knee(&ramp(&cell)) == Some(0));
    }
}
