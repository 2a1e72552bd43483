//! The adapters of this machine, and which of them is taken.

use std::fmt;

use super::error::DeviceError;

/// What an adapter is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdapterKind {
    /// A GPU with memory of its own.
    Discrete,
    /// A GPU that shares the processor's memory.
    Integrated,
    /// A GPU behind a virtual machine.
    Virtual,
    /// The driver does not say.
    Unknown,
    /// Software on the processor.
    Software,
}

/// An adapter, as its driver describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// Name, for example `llvmpipe (LLVM 15.0.6, 256 bits)`.
    pub name: String,
    /// Interface it is reached through, for example `Vulkan`.
    pub interface: String,
    /// Driver and its version.
    pub driver: String,
    /// What it is made of.
    pub kind: AdapterKind,
}

impl Adapter {
    pub(super) fn describe(info: &wgpu::AdapterInfo) -> Adapter {
        Adapter {
            name: info.name.clone(),
            interface: format!("{:?}", info.backend),
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
            kind: match info.device_type {
                wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
                wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
                wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
                wgpu::DeviceType::Other => AdapterKind::Unknown,
                wgpu::DeviceType::Cpu => AdapterKind::Software,
            },
        }
    }

    fn is_real(&self) -> bool {
        matches!(self.kind, AdapterKind::Discrete | AdapterKind::Integrated | AdapterKind::Virtual)
    }
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let software = if self.kind == AdapterKind::Software { ", software" } else { "" };
        write!(f, "{} ({}{software})", self.name, self.interface)
    }
}

/// Index of the adapter to take: the first whose name holds `name`, which is not empty, in any case, or the first real GPU, a discrete one
/// before an integrated one.
pub(super) fn choose(adapters: &[Adapter], name: Option<&str>) -> Result<usize, DeviceError> {
    let found = || adapters.iter().map(Adapter::to_string).collect();
    let Some(name) = name else {
        let real = adapters.iter().enumerate().filter(|(_, adapter)| adapter.is_real());
        let best = real.min_by_key(|(_, adapter)| adapter.kind).map(|(index, _)| index);
        return best.ok_or_else(|| DeviceError::NoAdapter { found: found() });
    };
    let wanted = name.to_lowercase();
    let is_named = |adapter: &Adapter| !wanted.is_empty() && adapter.name.to_lowercase().contains(&wanted);
    let named = adapters.iter().position(is_named);
    named.ok_or_else(|| DeviceError::UnknownAdapter { name: name.to_owned(), found: found() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(name: &str, kind: AdapterKind) -> Adapter {
        Adapter { name: name.into(), interface: "Vulkan".into(), driver: String::new(), kind }
    }

    #[test]
    fn a_real_gpu_is_found_and_software_is_taken_by_name_only() {
        let software = adapter("llvmpipe (LLVM 15.0.6, 256 bits)", AdapterKind::Software);
        let laptop = adapter("Intel(R) Graphics", AdapterKind::Integrated);
        let card = adapter("NVIDIA H200", AdapterKind::Discrete);
        let all = [software.clone(), laptop, card.clone(), card];
        assert_eq!(choose(&all, None), Ok(2));
        assert_eq!(choose(&all[..2], None), Ok(1));
        assert_eq!(choose(&all, Some("LLVMpipe")), Ok(0));
        assert_eq!(choose(&all, Some("graphics")), Ok(1));
        let found = vec!["llvmpipe (LLVM 15.0.6, 256 bits) (Vulkan, software)".to_owned()];
        assert_eq!(choose(&all[..1], None), Err(DeviceError::NoAdapter { found: found.clone() }));
        for name in ["radeon", ""] {
            let unknown = DeviceError::UnknownAdapter { name: name.to_owned(), found: found.clone() };
            assert_eq!(choose(&all[..1], Some(name)), Err(unknown));
        }
        assert_eq!(choose(&[], None), Err(DeviceError::NoAdapter { found: vec![] }));
    }
}
