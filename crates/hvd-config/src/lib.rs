//! Every `HOROVOD_*` setting, declared once in [`SETTINGS`] and read once into a value that is
//! passed on from then on. This is the only crate that reads the environment.
//!
//! A variable that is set but makes no sense is an error that names it; it is never silently zero.
//!
//! Must not know: what a setting is used for.

#![forbid(unsafe_code)]

mod bootstrap;
mod environment;
mod error;
mod setting;
mod worker;

pub use bootstrap::{BootstrapChoice, BootstrapConfig};
pub use environment::Environment;
pub use error::{Error, Result};
pub use setting::{
    Availability, SETTING_GROUPS, SETTINGS, Setting, SettingGroup, ValueKind, find, find_key,
    is_set_by_launcher, name,
};
pub use worker::{
    AutotuneConfig, EncryptionChoice, JoinAverageChoice, KeySource, LauncherFamily, LogLevel,
    MpiConfig, MpiThreads, RendezvousConfig, StallCheck, TimelineTarget, TransportChoice,
    WorkerConfig,
};
