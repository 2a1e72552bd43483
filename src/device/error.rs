//! What can go wrong with a device.

use thiserror::Error;

/// A device cannot do what is asked.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DeviceError {
    /// There is no real GPU.
    #[error("no GPU found{}; give --backend cpu, or name an adapter with --adapter", listed(found))]
    NoAdapter {
        /// The adapters there are, none of them a real GPU.
        found: Vec<String>,
    },
    /// No adapter has the name.
    #[error("no adapter is called \"{name}\"{}", listed(found))]
    UnknownAdapter {
        /// The name that was given.
        name: String,
        /// The adapters there are.
        found: Vec<String>,
    },
    /// An adapter is named beside the CPU.
    #[error("--adapter {name} asks for a GPU, but --backend cpu for none; leave out one of them")]
    NotForCpu {
        /// The name that was given.
        name: String,
    },
    /// The driver does not open the adapter.
    #[error("{adapter} does not open: {reason}")]
    Refused {
        /// Name of the adapter.
        adapter: String,
        /// What the driver says.
        reason: String,
    },
    /// A buffer is larger than the adapter allows.
    #[error(
        "the buffer \"{buffer}\" needs {bytes} bytes, but {adapter} allows {limit} a buffer; give a smaller --analysis-size, or --backend cpu"
    )]
    TooLarge {
        /// Name of the buffer.
        buffer: &'static str,
        /// Its size.
        bytes: u64,
        /// The adapter's limit.
        limit: u64,
        /// Name of the adapter.
        adapter: String,
    },
    /// The adapter has no memory left.
    #[error(
        "{adapter} has no {bytes} bytes left for the buffer \"{buffer}\" beside the {resident} in use; give a smaller --analysis-size, or --backend cpu"
    )]
    OutOfMemory {
        /// Name of the buffer.
        buffer: &'static str,
        /// Its size.
        bytes: u64,
        /// Bytes in use by this program.
        resident: u64,
        /// Name of the adapter.
        adapter: String,
    },
    /// A kernel needs more memory a workgroup than the adapter has.
    #[error(
        "{kernel} needs {bytes} bytes a workgroup, but {adapter} has {limit}; give a smaller window where it has one, or --backend cpu"
    )]
    WorkgroupMemory {
        /// Name of the kernel.
        kernel: &'static str,
        /// What it needs.
        bytes: usize,
        /// The adapter's limit.
        limit: usize,
        /// Name of the adapter.
        adapter: String,
    },
    /// A kernel binds more storage buffers than the adapter allows.
    #[error("{kernel} binds {buffers} storage buffers, but {adapter} allows {limit}; give --backend cpu")]
    StorageBuffers {
        /// Name of the kernel.
        kernel: &'static str,
        /// What it binds.
        buffers: usize,
        /// The adapter's limit.
        limit: usize,
        /// Name of the adapter.
        adapter: String,
    },
    /// A shader does not compile.
    #[error("the shader of {kernel} does not compile on {adapter}: {message}")]
    Shader {
        /// Name of the kernel.
        kernel: &'static str,
        /// Name of the adapter.
        adapter: String,
        /// What the compiler says.
        message: String,
    },
    /// The device is gone: unplugged, reset by the driver, or destroyed.
    #[error("{adapter} was lost: {reason}, at submission {submission}")]
    Lost {
        /// Name of the adapter.
        adapter: String,
        /// What the driver says.
        reason: String,
        /// Number and name of the last submission.
        submission: String,
    },
    /// A call that wgpu refuses: a mistake in this program.
    #[error("{adapter} refuses {what}: {message}")]
    Invalid {
        /// Name of the adapter.
        adapter: String,
        /// What was being done.
        what: String,
        /// What wgpu says.
        message: String,
    },
}

fn listed(found: &[String]) -> String {
    if found.is_empty() {
        return " (there are none at all)".into();
    }
    format!(" (there is {})", found.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_both_sides_and_a_way_out() {
        let adapter = || "llvmpipe".to_owned();
        let found = vec!["llvmpipe (Vulkan, software)".to_owned()];
        let says = |error: DeviceError, text: &str| assert_eq!(error.to_string(), text);
        says(
            DeviceError::NoAdapter { found: found.clone() },
            "no GPU found (there is llvmpipe (Vulkan, software)); give --backend cpu, or name an adapter with --adapter",
        );
        says(
            DeviceError::UnknownAdapter { name: "rtx".into(), found: vec![] },
            "no adapter is called \"rtx\" (there are none at all)",
        );
        says(
            DeviceError::TooLarge { buffer: "pyramid", bytes: 300, limit: 200, adapter: adapter() },
            "the buffer \"pyramid\" needs 300 bytes, but llvmpipe allows 200 a buffer; give a smaller --analysis-size, or --backend cpu",
        );
        says(
            DeviceError::Lost {
                adapter: adapter(),
                reason: "destroyed".into(),
                submission: "3 (push)".into(),
            },
            "llvmpipe was lost: destroyed, at submission 3 (push)",
        );
    }
}
