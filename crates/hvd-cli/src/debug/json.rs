//! How a job stands, for programs: one JSON document. Times are seconds ago.

use std::{fmt::Write as _, time::Duration};

use hvd_launch::debug::{
    JobStatus, RankState,
    snapshot::{OperationStatus, Origin, RankSnapshot, StackFrame, ThreadStack},
};

use super::table;

/// The whole document.
pub(super) fn document(status: &JobStatus) -> String {
    let description = &status.description;
    let ranks = (0..description.ranks.len()).map(|rank| member(status, rank));
    let fields = [
        ("job", description.supervisor.to_string()),
        ("driver", description.driver.to_string()),
        ("age", seconds(description.age)),
        ("command", text(&description.command)),
        ("answered", (!status.reports.is_empty()).to_string()),
        ("ranks", array(ranks)),
    ];
    object(&fields) + "\n"
}

fn member(status: &JobStatus, rank: usize) -> String {
    let member = &status.description.ranks[rank];
    let report = status.reports.iter().find(|it| it.rank.index() == rank);
    let snapshot = report.and_then(|report| report.snapshot.as_ref());
    let state = match (snapshot, status.states.get(rank)) {
        (Some(snapshot), _) => table::activity(snapshot),
        (None, Some(RankState::Ended)) => "ended",
        (None, Some(RankState::Absent)) => "not initialized",
        (None, Some(RankState::Present)) if status.states.contains(&RankState::Absent) => {
            "initializing"
        }
        (None, _) => "not answering",
    };
    let mut fields = vec![
        ("rank", rank.to_string()),
        ("host", text(&member.host)),
        ("pid", member.pid.to_string()),
        ("state", text(state)),
    ];
    if let Some(snapshot) = snapshot {
        fields.extend(details(snapshot));
    }
    object(&fields)
}

fn details(snapshot: &RankSnapshot) -> [(&'static str, String); 6] {
    let optional = |value: Option<String>| value.unwrap_or_else(|| "null".to_owned());
    let position = snapshot.position();
    [
        ("transport", text(&snapshot.wires)),
        ("current", optional(table::current(snapshot).map(operation))),
        ("python", optional(position.map(|it| frame(it.here)))),
        (
            "operations",
            array(snapshot.operations.iter().map(operation)),
        ),
        ("threads", array(snapshot.threads.iter().map(thread))),
        ("unknown", text(&snapshot.unknown)),
    ]
}

fn operation(operation: &OperationStatus) -> String {
    object(&[
        ("tensor", text(&operation.name)),
        ("operation", text(operation.kind.name())),
        ("state", text(operation.state.name())),
        ("process_set", operation.process_set.number().to_string()),
        ("submitted", seconds(operation.submitted())),
        ("since", seconds(operation.since())),
    ])
}

fn thread(thread: &ThreadStack) -> String {
    object(&[
        ("name", text(&thread.name)),
        ("frames", array(thread.frames.iter().map(frame))),
    ])
}

fn frame(frame: &StackFrame) -> String {
    let origin = match frame.origin {
        Origin::Program => "program",
        Origin::Library => "library",
        Origin::Horovod => "horovod",
    };
    object(&[
        ("file", text(&frame.file)),
        ("line", frame.line.to_string()),
        ("function", text(&frame.function)),
        ("origin", text(origin)),
    ])
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

fn object(fields: &[(&str, String)]) -> String {
    let fields = fields
        .iter()
        .map(|(name, value)| format!("\"{name}\": {value}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn text(value: &str) -> String {
    let mut quoted = String::from("\"");
    for character in value.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_names_every_rank() {
        let document = document(&table::tests::status());
        for part in [
            r#""job": 10"#,
            r#""state": "waiting", "transport": "shared memory", "current": {"tensor": "allreduce.x""#,
            r#""function": "load\"batch""#,
            r#"{"rank": 2, "host": "localhost", "pid": 14, "state": "not answering"}"#,
        ] {
            assert!(document.contains(part), "{part} is not in {document}");
        }
    }

    #[test]
    fn texts_are_escaped() {
        assert_eq!(text("a\"\\\n\u{e9}"), "\"a\\\"\\\\\\u000a\u{e9}\"");
        assert_eq!(text("\u{1b}\u{9b}"), "\"\\u001b\\u009b\"");
    }
}
