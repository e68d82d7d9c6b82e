//! Values to text.

use super::lex::Wrong;
use super::parse::{Call, Node, Operand, Pipeline, Range};
use super::{Files, function};
use serde_json::Value;

/// What names mean at one place of a template.
struct Scope<'a> {
    root: &'a Value,
    files: &'a Files,
    dot: Value,
    variables: Vec<(String, Value)>,
}

/// Renders nodes with `root` as the dot.
pub(super) fn render(nodes: &[Node], root: &Value, files: &Files) -> Result<String, Wrong> {
    let mut scope = Scope { root, files, dot: root.clone(), variables: Vec::new() };
    let mut out = String::new();
    scope.nodes(nodes, &mut out)?;
    Ok(out)
}

impl Scope<'_> {
    fn nodes(&mut self, nodes: &[Node], out: &mut String) -> Result<(), Wrong> {
        for node in nodes {
            match node {
                Node::Text(text) => out.push_str(text),
                Node::Print(line, pipeline) => {
                    let value = self.value(*line, pipeline)?;
                    out.push_str(&function::printed(&value).map_err(|why| (*line, why))?);
                }
                Node::If(arms, otherwise) => {
                    let mut chosen = otherwise;
                    for (line, when, then) in arms {
                        if function::is_true(&self.value(*line, when)?) {
                            chosen = then;
                            break;
                        }
                    }
                    self.nodes(chosen, out)?;
                }
                Node::With(line, over, body, otherwise) => {
                    let value = self.value(*line, over)?;
                    if function::is_true(&value) {
                        self.with_dot(value, body, out)?;
                    } else {
                        self.nodes(otherwise, out)?;
                    }
                }
                Node::Range(line, range) => self.range(*line, range, out)?,
            }
        }
        Ok(())
    }

    fn with_dot(&mut self, dot: Value, body: &[Node], out: &mut String) -> Result<(), Wrong> {
        let before = std::mem::replace(&mut self.dot, dot);
        let done = self.nodes(body, out);
        self.dot = before;
        done
    }

    fn range(&mut self, line: usize, range: &Range, out: &mut String) -> Result<(), Wrong> {
        let pairs: Vec<(Value, Value)> = match self.value(line, &range.over)? {
            Value::Null => Vec::new(),
            Value::Array(items) => {
                items.into_iter().enumerate().map(|(at, item)| (at.into(), item)).collect()
            }
            // By name, as Go does.
            Value::Object(members) => {
                let mut pairs: Vec<_> = members.into_iter().collect();
                pairs.sort_by(|a, b| a.0.cmp(&b.0));
                pairs.into_iter().map(|(key, value)| (key.into(), value)).collect()
            }
            other => {
                return Err((line, format!("range needs a list or a map, and this is {other}")));
            }
        };
        if pairs.is_empty() {
            return self.nodes(&range.otherwise, out);
        }
        for (key, value) in pairs {
            if let Some((key_name, value_name)) = &range.names {
                self.variables.push((key_name.clone(), key));
                self.variables.push((value_name.clone(), value.clone()));
            }
            let done = self.with_dot(value, &range.body, out);
            if range.names.is_some() {
                self.variables.truncate(self.variables.len() - 2);
            }
            done?;
        }
        Ok(())
    }

    fn value(&self, line: usize, pipeline: &Pipeline) -> Result<Value, Wrong> {
        self.pipeline(pipeline).map_err(|why| (line, why))
    }

    fn pipeline(&self, pipeline: &Pipeline) -> Result<Value, String> {
        let mut piped: Option<Value> = None;
        for call in &pipeline.0 {
            piped = Some(match call {
                Call::Operand(operand) => self.operand(operand)?,
                Call::Function(name, operands) => {
                    let arguments = operands.iter().map(|operand| self.operand(operand));
                    let mut arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                    arguments.extend(piped);
                    if *name == function::FILES_GET {
                        self.file(&arguments)?
                    } else {
                        function::call(name, &arguments)?
                    }
                }
            });
        }
        piped.ok_or_else(|| "a value is missing".to_owned())
    }

    /// Helm gives an empty text for a file that is not there; here it is a mistake of the chart.
    fn file(&self, arguments: &[Value]) -> Result<Value, String> {
        let [Value::String(path)] = arguments else {
            return Err(".Files.Get needs one path".to_owned());
        };
        let text = self.files.get(path).ok_or_else(|| format!("the chart has no file {path}"))?;
        Ok(text.as_str().into())
    }

    fn operand(&self, operand: &Operand) -> Result<Value, String> {
        match operand {
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Nested(pipeline) => self.pipeline(pipeline),
            Operand::Field(fields) => member(&self.dot, fields),
            Operand::Variable(name, fields) if name.is_empty() => member(self.root, fields),
            Operand::Variable(name, fields) => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                member(&found.ok_or_else(|| format!("${name} is not declared"))?.1, fields)
            }
        }
    }
}

/// A member of a member; absent is null, as in Go, but a member of a value that is not a map is a mistake.
fn member(value: &Value, fields: &[String]) -> Result<Value, String> {
    let mut at = value;
    for (number, field) in fields.iter().enumerate() {
        at = match at {
            Value::Object(members) => members.get(field).unwrap_or(&Value::Null),
            other => {
                let path = fields[..number].join(".");
                return Err(format!(".{path} is {other}, so it has no {field}"));
            }
        };
    }
    Ok(at.clone())
}
