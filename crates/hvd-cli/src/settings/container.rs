//! From `--container` and its options to what the ranks run in.

use std::path::Path;

use anyhow::{Result, bail};
use hvd_launch::{ContainerOptions, ContainerRuntime};

use crate::args::{ContainerArgs, RuntimeArg};

/// Where images come from that Apptainer alone knows.
const OF_APPTAINER: [&str; 4] = ["library://", "oras://", "shub://", "instance://"];

/// What the ranks run in, if not on the hosts themselves; paths are relative to `directory`.
pub(super) fn container(
    args: &ContainerArgs,
    directory: &Path,
) -> Result<Option<ContainerOptions>> {
    let Some(image) = &args.image else {
        return Ok(None);
    };
    let path = directory.join(image);
    let runtime = match args.runtime {
        Some(RuntimeArg::Apptainer | RuntimeArg::Singularity) => ContainerRuntime::Apptainer,
        Some(RuntimeArg::Docker) => ContainerRuntime::Docker,
        Some(RuntimeArg::Podman) => ContainerRuntime::Podman,
        None => guess(image, &path)?,
    };
    let is_file = runtime == ContainerRuntime::Apptainer && !image.contains("://");
    Ok(Some(ContainerOptions {
        image: if is_file {
            path.to_string_lossy().into_owned()
        } else {
            image.clone()
        },
        runtime,
        arguments: words(args.arguments.as_deref().unwrap_or_default())?,
    }))
}

/// By what the image is: a file or directory is Apptainer's, a name of a registry Docker's.
fn guess(image: &str, path: &Path) -> Result<ContainerRuntime> {
    if OF_APPTAINER.iter().any(|source| image.starts_with(source)) {
        return Ok(ContainerRuntime::Apptainer);
    }
    if image.starts_with("docker://") {
        return Ok(ContainerRuntime::Docker);
    }
    let is_sif = Path::new(image)
        .extension()
        .is_some_and(|end| end == "sif" || end == "img");
    if is_sif || path.is_dir() {
        return Ok(ContainerRuntime::Apptainer);
    }
    bail!(
        "`--container {image}` is neither a .sif file nor a directory nor begins with `docker://`; \
         for an image of an engine add `--container-runtime docker` or `--container-runtime podman`"
    )
}

/// The words of a line, as a shell reads quotes and backslashes; nothing else is special.
fn words(line: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            (mark, Some(open)) if mark == open => quote = None,
            ('\\', None | Some('"')) => {
                let next = characters.next().unwrap_or('\\');
                word.get_or_insert_default().push(next);
            }
            ('\'' | '"', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (blank, None) if blank.is_whitespace() => words.extend(word.take()),
            (other, _) => word.get_or_insert_default().push(other),
        }
    }
    if quote.is_some() {
        bail!("`--container-args` has an open quote: {line}");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(image: &str, runtime: Option<RuntimeArg>) -> Result<(String, ContainerRuntime)> {
        let args = ContainerArgs {
            image: Some(image.to_owned()),
            runtime,
            arguments: None,
        };
        let options = container(&args, Path::new("/tmp"))?;
        Ok(options
            .map(|chosen| (chosen.image, chosen.runtime))
            .unwrap())
    }

    #[test]
    fn files_are_for_apptainer_and_names_for_the_engine_that_is_named() {
        let apptainer = ContainerRuntime::Apptainer;
        assert_eq!(
            chosen("a.sif", None).unwrap(),
            ("/tmp/a.sif".to_owned(), apptainer)
        );
        assert_eq!(chosen("/", None).unwrap(), ("/".to_owned(), apptainer));
        assert_eq!(chosen("oras://x/y", None).unwrap().1, apptainer);
        let docker = chosen("docker://x:1", None).unwrap();
        assert_eq!(
            docker,
            ("docker://x:1".to_owned(), ContainerRuntime::Docker)
        );
        let podman = chosen("x:1", Some(RuntimeArg::Podman)).unwrap();
        assert_eq!(podman, ("x:1".to_owned(), ContainerRuntime::Podman));
        let pulled = chosen("docker://x", Some(RuntimeArg::Apptainer)).unwrap();
        assert_eq!(pulled, ("docker://x".to_owned(), apptainer));
        let said = chosen("no-such-image", None).unwrap_err().to_string();
        assert!(said.contains("add `--container-runtime docker`"), "{said}");
    }

    #[test]
    fn arguments_are_read_as_a_shell_reads_them() {
        let line = r#"--bind "/my data":/data  -e 'A=b c' x\ y ''"#;
        let expected = ["--bind", "/my data:/data", "-e", "A=b c", "x y", ""];
        assert_eq!(words(line).unwrap(), expected);
        assert!(words("").unwrap().is_empty());
        assert!(words("'open").is_err());
    }
}
