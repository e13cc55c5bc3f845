//! Slurm's run-length form of one number for each node: `4(x2),2` means 4, 4, 2. Text only.

use super::super::number;

/// The number of each of so many nodes.
pub(super) fn expand(text: &str, nodes: usize) -> Result<Vec<u32>, String> {
    let mut counts = Vec::new();
    for item in text.split(',') {
        let item = item.trim();
        let (count, times) = match item.split_once("(x") {
            None => (item, 1),
            Some((count, rest)) => {
                let times = rest.strip_suffix(')');
                let times = times.ok_or_else(|| format!("`{item}` has no `)`"))?;
                (count, number(times)?)
            }
        };
        let count = number(count)?;
        let times = usize::try_from(times).unwrap_or(usize::MAX);
        if times > nodes.saturating_sub(counts.len()) {
            return Err(format!(
                "it has more numbers than the job has nodes, {nodes}"
            ));
        }
        counts.extend(std::iter::repeat_n(count, times));
    }
    if counts.len() != nodes {
        return Err(format!(
            "it has {} numbers, but the job has {nodes} nodes",
            counts.len()
        ));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The form that Slurm writes.
    fn compress(counts: &[u32]) -> String {
        let runs = counts.chunk_by(|one, other| one == other);
        let run = |run: &[u32]| match run.len() {
            1 => run[0].to_string(),
            times => format!("{}(x{times})", run[0]),
        };
        runs.map(run).collect::<Vec<String>>().join(",")
    }

    #[test]
    fn what_slurm_writes_is_read() {
        assert_eq!(expand("4", 1).unwrap(), [4]);
        assert_eq!(expand("4(x2),2", 3).unwrap(), [4, 4, 2]);
        assert_eq!(expand("2,1", 2).unwrap(), [2, 1]);
    }

    #[test]
    fn what_slurm_does_not_write_is_refused() {
        for (text, nodes) in [
            ("", 1),
            ("x", 1),
            ("4(x2", 2),
            ("4(x2)", 1),
            ("4(x4000000000)", 2),
            ("4", 2),
            ("-1", 1),
            ("4,", 2),
        ] {
            assert!(expand(text, nodes).is_err(), "{text} for {nodes}");
        }
    }

    proptest! {
        #[test]
        fn any_counts_survive_slurms_form(counts in proptest::collection::vec(0_u32..9, 1..20)) {
            prop_assert_eq!(expand(&compress(&counts), counts.len()).unwrap(), counts);
        }

        #[test]
        fn any_text_ends_in_an_answer(text in "[0-9x(),]{0,30}", nodes in 0_usize..9) {
            if let Ok(counts) = expand(&text, nodes) {
                prop_assert_eq!(counts.len(), nodes);
            }
        }
    }
}
