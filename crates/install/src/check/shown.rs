//! Findings as text and JSON, in the form that `linkerd check` made familiar.

use super::{Finding, Problem, Verdict, is_well};
use serde_json::{Value, json};

/// All findings by category, or those alone that are not good.
#[must_use]
pub fn text(findings: &[Finding], short: bool) -> String {
    let mut out = String::new();
    let mut category = "";
    for finding in findings {
        if short && finding.verdict == Verdict::Good {
            continue;
        }
        if finding.category != category {
            let gap = if out.is_empty() { "" } else { "\n" };
            category = finding.category;
            out.push_str(&format!("{gap}{category}\n{}\n", "-".repeat(category.len())));
        }
        let (sign, problem) = match &finding.verdict {
            Verdict::Good => ('√', None),
            Verdict::Warning(problem) => ('‼', Some(problem)),
            Verdict::Failed(problem) => ('×', Some(problem)),
        };
        out.push_str(&format!("{sign} {}\n", finding.what));
        if let Some(Problem { seen, hint, .. }) = problem {
            out.push_str(&format!("    {seen}\n    hint: {hint}\n"));
        }
    }
    let gap = if out.is_empty() { "" } else { "\n" };
    let sign = if is_well(findings) { '√' } else { '×' };
    out.push_str(&format!("{gap}Status check results are {sign}\n"));
    out
}

/// As `linkerd check -o json` has it.
#[must_use]
pub fn json(findings: &[Finding]) -> String {
    let mut categories: Vec<Value> = Vec::new();
    for finding in findings {
        let mut check = json!({"description": finding.what});
        match &finding.verdict {
            Verdict::Good => check["result"] = "success".into(),
            Verdict::Warning(problem) | Verdict::Failed(problem) => {
                let failed = matches!(finding.verdict, Verdict::Failed(_));
                check["result"] = if failed { "error" } else { "warning" }.into();
                check["error"] = problem.seen.as_str().into();
                check["hint"] = problem.hint.as_str().into();
            }
        }
        match categories.last_mut() {
            Some(last) if last["categoryName"] == finding.category => {
                if let Some(checks) = last["checks"].as_array_mut() {
                    checks.push(check);
                }
            }
            _ => categories.push(json!({"categoryName": finding.category, "checks": [check]})),
        }
    }
    format!("{:#}\n", json!({"success": is_well(findings), "categories": categories}))
}
