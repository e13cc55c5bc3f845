//! Where a tensor's memory lives.

use std::fmt;

/// The processor that owns a tensor's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Device {
    /// Ordinary host memory; number -1 in messages.
    #[default]
    Cpu,
    /// A GPU, by its ordinal on the host.
    Gpu(u16),
}

impl Device {
    /// The number used in messages: -1 for the CPU, the ordinal for a GPU.
    pub fn code(self) -> i32 {
        match self {
            Self::Cpu => -1,
            Self::Gpu(ordinal) => i32::from(ordinal),
        }
    }

    /// The device a number stands for; negative numbers other than -1 and huge ones are `None`.
    pub fn from_code(code: i32) -> Option<Self> {
        if code == -1 {
            Some(Self::Cpu)
        } else {
            u16::try_from(code).ok().map(Self::Gpu)
        }
    }

    /// Whether the memory is the CPU's.
    pub fn is_cpu(self) -> bool {
        self == Self::Cpu
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_cpu() { "CPU" } else { "GPU" })
    }
}
