//! The backend, chosen once for a run.

use serde::{Deserialize, Serialize};

/// Where kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The twins on this machine's processor.
    #[default]
    Cpu,
}
