//! The stand-alone `horovodrun`. The wheel's script enters through `horovod._core` and calls the
//! same function.

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let status = hvd_cli::run(&arguments);
    u8::try_from(status).unwrap_or(1).into()
}
