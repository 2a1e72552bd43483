//! Where kernels run: the backend, chosen once for a run, and everything that knows wgpu.
//!
//! ```text
//! choose -> Gpu -> Buffer                     memory of the device, every byte accounted for by name
//!               -> Kernel -> Bound            a shader made once, then tied to its parameters and buffers
//!               -> Recording -> Submission    dispatches in one submission, a small readback, times of passes
//! ```
//!
//! # Adding a kernel
//!
//! 1. `src/kernels/NAME.rs`: the twin; its parameters as a `#[repr(C)]` Pod struct of u32 and f32, arrays of 16-byte
//!    structs first; `pub const SHADER: KernelSource` that says what the shader declares.
//! 2. `shaders/NAME.wgsl`: binding 0 the parameters (`var<uniform>`), then the inputs (`var<storage>`), then the outputs
//!    (`var<storage, read_write>`), in the order and with the names of `SHADER.bindings`; one entry point `main`. Text that
//!    several shaders share lies in `shaders/shared/` and is put before it with `concat!(include_str!(..), include_str!(..))`.
//! 3. A row in `kernels::KERNELS`: `tests/layouts.rs` then holds the two files against each other.
//! 4. A comparison with the twin in `tests/twins.rs`.
//!
//! ```no_run
//! # use trackweave::device::{DeviceError, Gpu};
//! # use trackweave::kernels::eigen_max::{EigenMaxParams, SHADER, STRIP};
//! # fn largest(gpu: &Gpu, values: &[f32]) -> Result<f32, DeviceError> {
//! let values_on_gpu = gpu.buffer_with("values", values)?;
//! let strips = gpu.buffer::<f32>("strips", values.len().div_ceil(STRIP))?;
//! let readback = gpu.readback::<f32>("strips", strips.len())?;
//! let params = EigenMaxParams::new(values.len());
//! let eigen_max = gpu.kernel(&SHADER, &[])?.bind(&params, &[&values_on_gpu, &strips])?;
//! let mut recording = gpu.record("the largest value");
//! recording.dispatch(&eigen_max, [strips.len() as u32, 1, 1]);
//! recording.read(&strips, 0..strips.len(), &readback);
//! recording.submit()?.wait()?;
//! Ok(readback.take()?.into_iter().fold(0.0, f32::max))
//! # }
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::account::{Allocated, Allocation, Counted};
pub use self::adapter::{Adapter, AdapterKind};
pub use self::budget::ChunkBudget;
pub use self::buffer::{AnyBuffer, Buffer, Readback};
pub use self::error::DeviceError;
pub use self::gpu::{Counts, Gpu};
pub(crate) use self::kernel::params_layout;
#[cfg(test)]
pub(crate) use self::kernel::validate;
pub use self::kernel::{Access, Binding, Bound, Kernel, KernelSource, ParamsLayout};
pub use self::submit::{PassTime, Recording, Submission};

mod account;
mod adapter;
mod budget;
mod buffer;
mod error;
mod gpu;
mod kernel;
mod submit;

/// Where kernels run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The twins on this machine's processor.
    #[default]
    Cpu,
    /// The shaders on a GPU, or on the adapter that was named.
    Gpu,
}

/// Where kernels are asked to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// A real GPU if there is one, else the CPU.
    #[default]
    Auto,
    /// A real GPU, or the adapter that is named.
    Gpu,
    /// The CPU.
    Cpu,
}

/// What was chosen.
#[derive(Clone, Debug, Default)]
pub enum Device {
    /// The twins.
    #[default]
    Cpu,
    /// The shaders.
    Gpu(Gpu),
}

impl Device {
    /// Chooses once for a run. `adapter` is a part of an adapter's name in any case; software adapters are taken by name
    /// only. With `Auto` a name asks for the GPU.
    ///
    /// # Errors
    /// There is no such adapter, it refuses, or it is named beside the CPU.
    pub fn choose(choice: BackendChoice, adapter: Option<&str>) -> Result<Device, DeviceError> {
        if choice == BackendChoice::Cpu {
            return match adapter {
                None => Ok(Device::Cpu),
                Some(name) => Err(DeviceError::NotForCpu { name: name.to_owned() }),
            };
        }
        match Gpu::open(adapter) {
            Err(DeviceError::NoAdapter { .. }) if choice == BackendChoice::Auto => Ok(Device::Cpu),
            opened => opened.map(Device::Gpu),
        }
    }

    /// Which of the two it is.
    pub fn backend(&self) -> Backend {
        match self {
            Device::Cpu => Backend::Cpu,
            Device::Gpu(_) => Backend::Gpu,
        }
    }

    /// The GPU, if it is one.
    pub fn gpu(&self) -> Option<&Gpu> {
        match self {
            Device::Cpu => None,
            Device::Gpu(gpu) => Some(gpu),
        }
    }

    /// Name of the adapter; none for the CPU.
    pub fn adapter(&self) -> Option<&str> {
        self.gpu().map(|gpu| gpu.adapter().name.as_str())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Gpu(gpu) => write!(f, "gpu ({})", gpu.adapter().name),
        }
    }
}
