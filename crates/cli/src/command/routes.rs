//! `leno routes`: requests by route and backend, as clients count them.

use super::stat::{Wish, asked};
use super::traffic::{look, percent, rest, times};
use crate::args::{self, Format};
use crate::home::Home;
use crate::output;
use anyhow::bail;
use leno_up::figures::reading::routes::{RouteFigures, routes};

pub(super) fn run(home: &Home, wanted: &args::Routes) -> anyhow::Result<()> {
    let wish = match wanted.target.as_slice() {
        [] => None,
        target => Some(Wish::read(target)?),
    };
    if wish.as_ref().is_some_and(|wish| wish.name.is_none()) {
        bail!("a kind needs a name: svc/web or deploy/web");
    }
    let scope = &wanted.shown.scope;
    let scope = wish.as_ref().map_or_else(|| scope.clone(), |wish| asked(wish, scope));
    let service = wish.as_ref().filter(|wish| wish.kind == "service").map(|wish| {
        let namespace = wanted.shown.scope.namespace.as_deref().unwrap_or(home.namespace());
        format!("{namespace}/{}", wish.name.as_deref().unwrap_or_default())
    });
    super::repeat(wanted.shown.watch, || {
        let mut members = home.members(&scope)?;
        if let (Some(wish), None) = (&wish, &service) {
            members.retain(|member| wish.object_of(member).is_some());
        }
        let before = home.readings(&members)?;
        look(wanted.window);
        let mut rows = routes(&before, &home.readings(&members)?);
        rows.retain(|row| service.as_ref().is_none_or(|service| row.service == *service));
        if let Some(text) = output::structured(wanted.shown.output, &rows)? {
            return Ok(text);
        }
        Ok(match wanted.shown.output {
            Format::Name => rows.iter().map(|row| format!("route/{}\n", row.route)).collect(),
            format => table(&rows, format == Format::Wide),
        })
    })
}

fn table(rows: &[RouteFigures], wide: bool) -> String {
    let mut headings =
        vec!["SERVICE", "ROUTE", "BACKEND", "REQ/S", "SUCCESS", "P50", "P95", "P99", "REQUESTS"];
    if wide {
        headings.extend(["EFFECTIVE", "RETRIES/S", "AMPLIFICATION", "OVER_BUDGET/S", "EJECTED"]);
    }
    let or_dash = |text: &String| if text.is_empty() { "-".to_owned() } else { text.clone() };
    let row = |row: &RouteFigures| {
        let figures = &row.figures;
        let mut cells = vec![or_dash(&row.service), row.route.clone(), or_dash(&row.backend)];
        cells.push(format!("{:.1}", figures.requests_per_second));
        cells.push(percent(figures.success_rate));
        cells.extend(rest(figures).into_iter().take(3));
        cells.push(figures.requests_total.to_string());
        if wide {
            cells.extend([
                percent(figures.effective_success_rate),
                format!("{:.1}", figures.retries_per_second),
                times(figures.amplification),
                format!("{:.1}", figures.over_budget_per_second),
                figures.ejected_endpoints.to_string(),
            ]);
        }
        cells
    };
    output::shown(&headings, &rows.iter().map(row).collect::<Vec<_>>(), wide)
}
