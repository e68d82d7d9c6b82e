//! What a dashboard consists of, and its JSON (schema version 39, Grafana 10 and later).

use serde_json::{Value, json};

/// Columns of a dashboard.
const COLUMNS: u64 = 24;

pub(super) struct Dashboard {
    /// Name of the file and, in Grafana, of its address.
    pub(super) uid: &'static str,
    pub(super) title: &'static str,
    pub(super) variables: Vec<Value>,
    pub(super) rows: Vec<Row>,
}

/// A heading, and the panels below it from left to right.
pub(super) struct Row {
    pub(super) title: &'static str,
    pub(super) panels: Vec<Panel>,
}

pub(super) struct Panel {
    kind: Kind,
    title: &'static str,
    /// Unit as Grafana names it: `percentunit`, `reqps`, `ms`, `bytes`, `short`, `s`.
    unit: &'static str,
    width: u64,
    height: u64,
    /// Expression and legend.
    queries: Vec<(String, &'static str)>,
    /// Title and address of a link at every point or row.
    link: Option<(&'static str, &'static str)>,
    /// What the panel says beside its title.
    description: &'static str,
}

/// Panels of latencies that lean metrics sum.
const NEEDS_FULL: &str = "Latency by Service, route or endpoint needs the annotation leno.dev/metrics: full on the clients' pods or namespace. \
     leno dashboard and leno edges show it without.";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stat,
    Graph,
    Table,
}

impl Panel {
    /// One number.
    pub(super) fn stat(title: &'static str, unit: &'static str, query: String) -> Self {
        Self::new(Kind::Stat, title, unit, 4, 4).query(query, "")
    }

    /// Lines over time.
    pub(super) fn graph(title: &'static str, unit: &'static str) -> Self {
        Self::new(Kind::Graph, title, unit, 8, 8)
    }

    /// A row for each combination of labels. The first query has the unit of the panel.
    pub(super) fn table(title: &'static str, unit: &'static str) -> Self {
        Self::new(Kind::Table, title, unit, COLUMNS, 9)
    }

    fn new(kind: Kind, title: &'static str, unit: &'static str, width: u64, height: u64) -> Self {
        Self { kind, title, unit, width, height, queries: Vec::new(), link: None, description: "" }
    }

    /// Adds an expression and the name of its lines.
    pub(super) fn query(mut self, query: String, legend: &'static str) -> Self {
        self.queries.push((query, legend));
        self
    }

    pub(super) fn with_full_metrics(mut self) -> Self {
        self.description = NEEDS_FULL;
        self
    }

    pub(super) fn wide(mut self, columns: u64) -> Self {
        self.width = columns;
        self
    }

    pub(super) fn link(mut self, title: &'static str, address: &'static str) -> Self {
        self.link = Some((title, address));
        self
    }

    fn json(&self, id: u64, x: u64, y: u64) -> Value {
        let kind = match self.kind {
            Kind::Stat => "stat",
            Kind::Graph => "timeseries",
            Kind::Table => "table",
        };
        let mut defaults = json!({"unit": self.unit});
        if self.unit == "percentunit" {
            defaults["min"] = 0.into();
            defaults["max"] = 1.into();
        }
        if let Some((title, url)) = self.link {
            defaults["links"] = json!([{"title": title, "url": url}]);
        }
        let mut panel = json!({
            "id": id,
            "type": kind,
            "title": self.title,
            "datasource": datasource(),
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "options": self.options(),
            "targets": self.targets(),
        });
        if !self.description.is_empty() {
            panel["description"] = self.description.into();
        }
        if self.kind == Kind::Table {
            panel["transformations"] = json!([
                {"id": "merge", "options": {}},
                {"id": "organize", "options": {
                    "excludeByName": {"Time": true},
                    "renameByName": self.columns(),
                }},
            ]);
            panel["fieldConfig"]["overrides"] = self.units_of_columns();
        }
        panel
    }

    fn options(&self) -> Value {
        match self.kind {
            Kind::Stat => json!({"reduceOptions": {"calcs": ["lastNotNull"]}}),
            Kind::Graph => json!({
                "legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }),
            Kind::Table => json!({"showHeader": true}),
        }
    }

    fn targets(&self) -> Value {
        let target = |(index, (query, legend)): (usize, &(String, &str))| {
            let mut target = json!({
                "refId": reference(index),
                "datasource": datasource(),
                "expr": query,
                "legendFormat": legend,
            });
            if self.kind == Kind::Table {
                target["format"] = "table".into();
                target["instant"] = true.into();
            }
            target
        };
        self.queries.iter().enumerate().map(target).collect()
    }

    fn columns(&self) -> Value {
        let name = |index: usize| match self.queries.len() {
            1 => "Value".to_owned(),
            _ => format!("Value #{}", reference(index)),
        };
        let named = self.queries.iter().enumerate();
        named.map(|(index, (_, legend))| (name(index), Value::from(*legend))).collect()
    }

    fn units_of_columns(&self) -> Value {
        let unit = |(_, legend): &(String, &str)| {
            let unit = match *legend {
                "success" | "mutual TLS" => "percentunit",
                "requests/s" => "reqps",
                _ => "ms",
            };
            json!({
                "matcher": {"id": "byName", "options": legend},
                "properties": [{"id": "unit", "value": unit}],
            })
        };
        self.queries.iter().map(unit).collect()
    }
}

impl Dashboard {
    /// As Grafana imports it.
    pub(super) fn json(&self) -> Value {
        let mut panels = Vec::new();
        let (mut id, mut y) = (0, 0);
        for row in &self.rows {
            id += 1;
            panels.push(json!({
                "id": id,
                "type": "row",
                "title": row.title,
                "collapsed": false,
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
                "panels": [],
            }));
            y += 1;
            let (mut x, mut height) = (0, 0);
            for panel in &row.panels {
                if x + panel.width > COLUMNS {
                    (x, y, height) = (0, y + height, 0);
                }
                id += 1;
                panels.push(panel.json(id, x, y));
                (x, height) = (x + panel.width, panel.height.max(height));
            }
            y += height;
        }
        json!({
            "uid": self.uid,
            "title": self.title,
            "tags": ["leno", "service-mesh"],
            "schemaVersion": 39,
            "version": 1,
            "editable": true,
            "refresh": "10s",
            "time": {"from": "now-15m", "to": "now"},
            "links": [{
                "title": "Leno", "type": "dashboards", "tags": ["leno"],
                "asDropdown": true, "includeVars": true, "keepTime": true,
            }],
            "templating": {"list": self.variables},
            "panels": panels,
        })
    }
}

fn reference(index: usize) -> String {
    char::from(b'A' + u8::try_from(index).unwrap_or(25)).to_string()
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

/// The choice of a Prometheus.
pub(super) fn prometheus() -> Value {
    json!({"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"})
}

/// A choice among the values of a label.
pub(super) fn choice(name: &str, query: &str, all: bool) -> Value {
    let mut choice = json!({
        "name": name,
        "type": "query",
        "datasource": datasource(),
        "query": query,
        "includeAll": all,
        "multi": all,
        "refresh": 2,
        "sort": 1,
    });
    if all {
        choice["allValue"] = ".*".into();
        choice["current"] = json!({"text": "All", "value": "$__all"});
    }
    choice
}

/// Inbound or outbound.
pub(super) fn direction() -> Value {
    let option = |name: &str| json!({"text": name, "value": name, "selected": name == "inbound"});
    json!({
        "name": "direction",
        "type": "custom",
        "query": "inbound,outbound",
        "current": {"text": "inbound", "value": "inbound"},
        "options": [option("inbound"), option("outbound")],
    })
}

/// `sum by (LABELS) (rate(NAME{LABELS}[…]))`; without labels to group by, the sum of all.
pub(super) fn rate(by: &str, name: &str, selector: &str) -> String {
    let by = if by.is_empty() { String::new() } else { format!(" by ({by}) ") };
    format!("sum{by}(rate({name}{{{selector}}}[$__rate_interval]))")
}

/// The share of `part` in `whole`. Zero, not nothing, if there is no series of the part.
pub(super) fn share(part: &str, whole: &str) -> String {
    format!("({part} or 0 * {whole}) / {whole}")
}

/// Share of successful responses.
pub(super) fn success(by: &str, selector: &str) -> String {
    let good = rate(by, "response_total", &format!("classification=\"success\",{selector}"));
    share(&good, &rate(by, "response_total", selector))
}

/// Share of requests over mutual TLS.
pub(super) fn mutual_tls(by: &str, selector: &str) -> String {
    let protected = rate(by, "request_total", &format!("tls=\"true\",{selector}"));
    share(&protected, &rate(by, "request_total", selector))
}

/// A percentile of latency in milliseconds.
pub(super) fn latency(quantile: &str, by: &str, selector: &str) -> String {
    let by = if by.is_empty() { "le".to_owned() } else { format!("le, {by}") };
    let buckets = rate(&by, "response_latency_ms_bucket", selector);
    format!("histogram_quantile({quantile}, {buckets})")
}
