//! `--check-build`: what this build can do, as three lists of boxes. A framework gets its cross when
//! it is installed; it is not imported, so the answer is immediate.

use std::fmt::Write as _;

use crate::VERSION;

/// Frameworks and their Python packages.
const FRAMEWORKS: [(&str, &str); 4] = [
    ("TensorFlow", "tensorflow"),
    ("PyTorch", "torch"),
    ("MXNet", "mxnet"),
    ("JAX", "jax"),
];

const CONTROLLERS: [(&str, bool); 2] = [("MPI", true), ("Gloo", true)];

const OPERATIONS: [(&str, bool); 5] = [
    ("NCCL", false),
    ("DDL", false),
    ("CCL", false),
    ("MPI", true),
    ("Gloo", true),
];

/// The whole text; `is_installed` answers for Python packages.
pub(crate) fn table(is_installed: &dyn Fn(&str) -> bool) -> String {
    let frameworks = FRAMEWORKS.map(|(name, package)| (name, is_installed(package)));
    let mut text = format!("Horovod v{VERSION}:\n");
    list(&mut text, "Frameworks", &frameworks);
    list(&mut text, "Controllers", &CONTROLLERS);
    list(&mut text, "Tensor Operations", &OPERATIONS);
    text.push_str(
        "\nGloo stands for Horovod's own native transport. MPI is opened at run time if chosen.\n",
    );
    text
}

fn list(text: &mut String, title: &str, boxes: &[(&str, bool)]) {
    let _ = writeln!(text, "\nAvailable {title}:");
    for (name, checked) in boxes {
        let _ = writeln!(text, "    [{}] {name}", if *checked { 'X' } else { ' ' });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_installed_frameworks_are_checked() {
        let all = table(&|_| true);
        assert!(all.starts_with(&format!("Horovod v{VERSION}:\n\nAvailable Frameworks:\n")));
        assert!(
            all.contains("    [X] TensorFlow\n    [X] PyTorch\n    [X] MXNet\n    [X] JAX\n"),
            "{all}"
        );
        assert!(table(&|package| package == "torch").contains("    [ ] TensorFlow\n"));
        assert!(table(&|_| false).contains("    [ ] PyTorch\n"));
        assert_eq!(all.matches("[X] Gloo").count(), 2);
    }
}
