//! Options about the image that ranks run in. Only the shape of each option is checked here.

use clap::{Args, ValueEnum};

/// Which image, and what runs it.
#[derive(Debug, Args)]
pub(crate) struct ContainerArgs {
    #[arg(long = "container", value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    #[arg(long = "container-runtime", value_name = "NAME", requires = "image")]
    pub(crate) runtime: Option<RuntimeArg>,
    #[arg(
        long = "container-args",
        value_name = "ARGS",
        allow_hyphen_values = true,
        requires = "image"
    )]
    pub(crate) arguments: Option<String>,
}

/// What runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeArg {
    Apptainer,
    Singularity,
    Docker,
    Podman,
}
