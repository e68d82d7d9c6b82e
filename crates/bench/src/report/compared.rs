//! Two meshes held against each other, whichever way round the result keeps the pair; and the one sentence at the top.

use super::group::{self, Group};
use super::words;
use crate::result::{Campaign, Cell, Comparison, Estimate};

/// What one passage through one proxy costs.
const COST: &str = "proxy.cpu_us_per_traversal";

/// `b` held against `a`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Difference {
    /// `b - a`.
    pub(super) diff: f64,
    /// Its 95 % interval.
    pub(super) ci95: Option<[f64; 2]>,
    /// `b / a`.
    pub(super) ratio: Option<f64>,
    /// Whether the result calls it the same.
    pub(super) same: bool,
}

impl Difference {
    /// Whether it is larger than the noise of the pair or (if that is unknown) of the whole campaign.
    fn is_clear(&self, campaign: &Campaign, metric: &str) -> bool {
        let noise = campaign.noise_band.get(metric).copied().unwrap_or(0.0);
        let change = self.ratio.map_or(f64::INFINITY, |ratio| (ratio - 1.0).abs());
        !self.same && change > noise
    }
}

/// The same pair the other way round: `a` held against `b`.
pub(super) fn turned(one: &Comparison) -> Comparison {
    let inverse = |ratio: f64| 1.0 / ratio;
    Comparison {
        a: one.b.clone(),
        b: one.a.clone(),
        diff: -one.diff,
        ci95: one.ci95.map(|[low, high]| [-high, -low]),
        ratio: one.ratio.filter(|ratio| *ratio > 0.0).map(inverse),
        ratio_ci95: one
            .ratio_ci95
            .filter(|[low, _]| *low > 0.0)
            .map(|[low, high]| [inverse(high), inverse(low)]),
        effect: match one.effect.as_str() {
            "better" => "worse".to_owned(),
            "worse" => "better".to_owned(),
            effect => effect.to_owned(),
        },
        ..one.clone()
    }
}

/// What the result says of the pair, or else the plain difference of the two estimates.
pub(super) fn difference(
    campaign: &Campaign,
    a: &Cell,
    b: &Cell,
    metric: &str,
    of: impl Fn(&Cell) -> Option<Estimate>,
) -> Option<Difference> {
    let words = crate::statistics::cell_words(b);
    let said = campaign.compare.iter().find_map(|one| {
        let meshes = (one.a.as_str(), one.b.as_str());
        let is_turned = meshes == (b.mesh.as_str(), a.mesh.as_str());
        let is_straight = meshes == (a.mesh.as_str(), b.mesh.as_str());
        if one.metric != metric || !(is_turned || is_straight) || one.cell != words {
            return None;
        }
        let turned = is_turned.then(|| turned(one));
        let one = turned.as_ref().unwrap_or(one);
        let same = one.effect == "same";
        Some(Difference { diff: one.diff, ci95: one.ci95, ratio: one.ratio, same })
    });
    said.or_else(|| {
        let (a, b) = (of(a)?.v, of(b)?.v);
        let ratio = (a > 0.0).then(|| b / a);
        Some(Difference { diff: b - a, ci95: None, ratio, same: false })
    })
}

/// A pooled percentile of the cell.
pub(super) fn merged(cell: &Cell, key: &str) -> Option<Estimate> {
    cell.summary.merged.get(key).copied().filter(|estimate| estimate.n > 0)
}

/// Added latency over no mesh, in milliseconds.
pub(super) fn added(
    campaign: &Campaign,
    group: &Group<'_>,
    mesh: &str,
    key: &str,
) -> Option<Difference> {
    let (none, cell) = (group.of("none")?, group.of(mesh)?);
    if mesh == "none" {
        return None;
    }
    difference(campaign, none, cell, &format!("{key}_ms"), |cell| merged(cell, key))
}

/// What one passage through one proxy costs, against another mesh's.
pub(super) fn cost(campaign: &Campaign, against: &Cell, cell: &Cell) -> Option<Difference> {
    let of = |cell: &Cell| group::proxy_cost(cell).copied();
    of(against)?;
    of(cell)?;
    difference(campaign, against, cell, COST, of)
}

/// The answer in one sentence: the cost of each mesh relative to the others; a second sentence for runs with disturbances.
pub(super) fn headline(campaign: &Campaign) -> Vec<String> {
    let groups = group::groups(campaign);
    let mut sentences: Vec<String> = main_sentence(campaign, &groups).into_iter().collect();
    if groups.iter().any(|group| group.open) {
        sentences.extend(saturated(campaign, &groups));
    }
    sentences.extend(losses(campaign));
    sentences.extend(broken(campaign));
    if sentences.is_empty() {
        sentences.extend(plain(&groups));
    }
    if sentences.is_empty() {
        let tried = campaign.cells.iter().any(|cell| !cell.runs.is_empty());
        let nothing =
            if tried { "No repetition is valid." } else { "Nothing has been measured yet." };
        sentences.push(nothing.into());
    }
    sentences
}

/// `leno: 0.58 × HAProxy CPU per request and proxy at 2,000/s; +0.09 ms p50 (HAProxy +0.22)`.
fn main_sentence(campaign: &Campaign, groups: &[Group<'_>]) -> Option<String> {
    let (subject, peer) = group::subject(campaign);
    let subject = subject?;
    // The fastest open loop is where cost matters most and latency can still be told; a closed one has the cost only.
    let known = groups.iter().filter(|group| group.leads && has(group, subject));
    let against = |group: &Group<'_>| peer.is_some_and(|peer| has(group, peer));
    let rank = |group: &Group<'_>| (group.open, against(group));
    // Of equals the first: closed loops have no rate, and the first is the scenario's own first.
    let group = known.rev().max_by(|a, b| rank(a).cmp(&rank(b)).then(a.rate.total_cmp(&b.rate)))?;
    let cell = group.of(subject)?;
    let mut parts = Vec::new();
    if let Some(against) = peer.and_then(|peer| group.of(peer))
        && let Some(words) = cost_words(campaign, against, cell)
    {
        parts.push(words);
    } else if let Some(cost) = group::proxy_cost(cell) {
        parts.push(format!("{} µs CPU per request and proxy", words::figure(cost.v)));
    }
    let at = match group.rate {
        rate if rate > 0.0 => format!("at {}/s", words::figure(rate)),
        _ => format!("in {}", words::short(cell, &campaign.cells)),
    };
    let cpu = parts.pop().map(|part| format!("{part} {at}"));
    let latency = match group.open {
        true => latency_words(campaign, group, subject, peer),
        false => capacity_words(group, cell),
    };
    let said: Vec<String> = cpu.into_iter().chain(latency).collect();
    (!said.is_empty()).then(|| format!("{}: {}.", words::mesh(subject), said.join("; ")))
}

/// `0.58 × HAProxy CPU per request and proxy`; a difference within the noise is called none.
fn cost_words(campaign: &Campaign, against: &Cell, cell: &Cell) -> Option<String> {
    let cost = cost(campaign, against, cell)?;
    let (ratio, mesh) = (words::figure(cost.ratio?), words::mesh(&against.mesh));
    Some(match cost.is_clear(campaign, COST) {
        true => format!("{ratio} × {mesh} CPU per request and proxy"),
        false => format!("the same CPU per request and proxy as {mesh}, within noise"),
    })
}

/// Losses named at the top; the rest is in the panel of differences.
const LOSSES_MAX: usize = 4;

/// `Worse than HAProxy: p99 in grpc (1.66 ×), …`: what the subject loses to its peer beyond the noise.
fn losses(campaign: &Campaign) -> Option<String> {
    let (subject, peer) = group::subject(campaign);
    let (subject, peer) = (subject?, peer?);
    let mut lost: Vec<(f64, String)> = Vec::new();
    for one in &campaign.compare {
        let turned = (one.a == subject).then(|| turned(one));
        let one = turned.as_ref().unwrap_or(one);
        let named = words::COMPARED.iter().find(|(metric, ..)| *metric == one.metric);
        let (Some((_, figure, ..)), Some(ratio)) = (named, one.ratio) else { continue };
        if one.a != peer || one.b != subject || one.effect != "worse" {
            continue;
        }
        let cell = campaign
            .cells
            .iter()
            .find(|cell| cell.mesh == subject && crate::statistics::cell_words(cell) == one.cell);
        let load =
            cell.map_or_else(|| one.cell.clone(), |cell| words::short(cell, &campaign.cells));
        lost.push((ratio.ln().abs(), format!("{figure} in {load} ({} ×)", words::figure(ratio))));
    }
    lost.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let more = match lost.len().saturating_sub(LOSSES_MAX) {
        0 => String::new(),
        more => format!("; {more} more below"),
    };
    let named: Vec<String> = lost.into_iter().take(LOSSES_MAX).map(|(_, words)| words).collect();
    (!named.is_empty())
        .then(|| format!("Worse than {}: {}{more}.", words::mesh(peer), named.join(", ")))
}

/// `11,899 answers/s (no mesh 46,020)`.
fn capacity_words(group: &Group<'_>, cell: &Cell) -> Option<String> {
    let rate = |cell: &Cell| (cell.summary.rps.n > 0).then_some(cell.summary.rps.v);
    let none = group.of("none").filter(|none| none.mesh != cell.mesh).and_then(rate);
    let none = none.map_or_else(String::new, |none| format!(" (no mesh {})", words::figure(none)));
    Some(format!("{} answers/s{none}", words::figure(rate(cell)?)))
}

fn has(group: &Group<'_>, mesh: &str) -> bool {
    group.of(mesh).is_some_and(|cell| group::counted(cell).next().is_some())
}

/// `+0.09 ms p50, +0.41 ms p99 over no mesh (HAProxy +0.22, +0.80)`.
fn latency_words(
    campaign: &Campaign,
    group: &Group<'_>,
    subject: &str,
    peer: Option<&str>,
) -> Option<String> {
    let quotable = |mesh: &str, key: &str| {
        let estimate = merged(group.of(mesh)?, key)?;
        estimate.quotable.then_some(())?;
        let added = added(campaign, group, mesh, key)?;
        added.is_clear(campaign, &format!("{key}_ms")).then_some(added)
    };
    let keys: Vec<&str> =
        ["p50", "p99"].into_iter().filter(|key| quotable(subject, key).is_some()).collect();
    if keys.is_empty() {
        return None;
    }
    let of = |mesh: &str, unit: bool| -> Vec<String> {
        let words = |key: &&str| {
            let Some(added) = quotable(mesh, key) else { return "n/a".to_owned() };
            let diff = words::signed(added.diff);
            if unit { format!("{diff} ms {key}") } else { diff }
        };
        keys.iter().map(words).collect()
    };
    let mut text = format!("{} over no mesh", of(subject, true).join(", "));
    if let Some(peer) = peer {
        let others = of(peer, false);
        if others.iter().any(|other| other != "n/a") {
            text += &format!(" ({} {})", words::mesh(peer), others.join(", "));
        }
    }
    Some(text)
}

/// `Saturated: 0.55 × HAProxy CPU per request and proxy, 1.4 × its rate.`
fn saturated(campaign: &Campaign, groups: &[Group<'_>]) -> Option<String> {
    let (subject, peer) = group::subject(campaign);
    let (subject, peer) = (subject?, peer?);
    let group = groups
        .iter()
        .find(|group| !group.open && group.leads && has(group, subject) && has(group, peer))?;
    let (cell, against) = (group.of(subject)?, group.of(peer)?);
    let mut parts = Vec::new();
    parts.extend(cost_words(campaign, against, cell));
    let of = |cell: &Cell| (cell.summary.rps.n > 0).then_some(cell.summary.rps);
    if let Some(rate) = difference(campaign, against, cell, "rps", of)
        && let Some(ratio) = rate.ratio
        && rate.is_clear(campaign, "rps")
    {
        parts.push(format!("{} × its rate", words::figure(ratio)));
    }
    (!parts.is_empty()).then(|| format!("Saturated: {}.", parts.join(", ")))
}

/// `leno: 9 kills, 0.012 % of requests failed, whole again after 1.0 s at most.`
fn broken(campaign: &Campaign) -> Option<String> {
    let mut parts = Vec::new();
    let mut cells: Vec<&Cell> = campaign.cells.iter().collect();
    cells.sort_by_key(|cell| words::place(&cell.mesh));
    for cell in cells {
        let runs: Vec<_> = group::counted(cell).filter(|run| !run.events.is_empty()).collect();
        if runs.is_empty() {
            continue;
        }
        let events: usize = runs.iter().map(|run| run.events.len()).sum();
        let recovery = runs.iter().flat_map(|run| &run.events).filter_map(|event| event.recovery_s);
        let worst = recovery.reduce(f64::max);
        let worst = worst.map_or_else(String::new, |worst| {
            format!(", whole again after {} s at most", words::figure(worst))
        });
        parts.push(format!(
            "{}: {events} disturbances, {} of requests failed{worst}",
            words::mesh(&cell.mesh),
            words::share(cell.summary.failed_ratio)
        ));
    }
    (!parts.is_empty()).then(|| format!("{}.", parts.join("; ")))
}

/// Where there is no mesh to hold against another: what was reached.
fn plain(groups: &[Group<'_>]) -> Option<String> {
    let group =
        groups.iter().rev().find(|group| group.cells.iter().any(|cell| cell.summary.rps.n > 0))?;
    let said = group.cells.iter().filter(|cell| cell.summary.rps.n > 0).map(|cell| {
        let p99 = merged(cell, "p99").filter(|p99| p99.quotable);
        let p99 = p99.map_or_else(String::new, |p99| format!(", p99 {} ms", words::figure(p99.v)));
        format!("{} {}/s{p99}", words::mesh(&cell.mesh), words::figure(cell.summary.rps.v))
    });
    Some(format!("{}: {}.", group.words, said.collect::<Vec<_>>().join("; ")))
}
