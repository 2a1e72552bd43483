//! The run record: what run.json says.

use serde::{Deserialize, Serialize};

/// What a run found out, in the order of run.json.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {}
