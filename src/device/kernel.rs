//! Shaders made into pipelines, once a device, and tied to parameters and buffers.

use std::fmt::Write;
use std::num::NonZeroU64;
use std::sync::Arc;

use bytemuck::Pod;
use parking_lot::Mutex;
use wgpu::BufferUsages;

use super::buffer::{Allocation, AnyBuffer};
use super::error::DeviceError;
use super::gpu::Gpu;

/// How a shader uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `var<storage>` or `var<storage, read>`.
    Read,
    /// `var<storage, read_write>`.
    ReadWrite,
}

/// A buffer of a shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Name of the variable.
    pub name: &'static str,
    /// How it is used.
    pub access: Access,
}

impl Binding {
    /// An input.
    pub const fn read(name: &'static str) -> Binding {
        Binding { name, access: Access::Read }
    }

    /// An output, or both.
    pub const fn read_write(name: &'static str) -> Binding {
        Binding { name, access: Access::ReadWrite }
    }
}

/// Where the members of a parameter struct lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamsLayout {
    /// Bytes of the struct.
    pub size: usize,
    /// Names and byte offsets of the members.
    pub members: &'static [(&'static str, usize)],
}

/// The layout of a Rust struct with the members named.
macro_rules! params_layout {
    ($params:ty: $($member:ident),+ $(,)?) => {
        $crate::device::ParamsLayout {
            size: std::mem::size_of::<$params>(),
            members: &[$((stringify!($member), std::mem::offset_of!($params, $member))),+],
        }
    };
}
pub(crate) use params_layout;

/// A kernel as its files declare it: binding 0 holds the parameters, the buffers follow.
#[derive(Clone, Copy, Debug)]
pub struct KernelSource {
    /// Stem of both files.
    pub name: &'static str,
    /// Text of the shader, entry point `main`.
    pub wgsl: &'static str,
    /// Invocations of a workgroup.
    pub workgroup: [u32; 3],
    /// Parameters, `var<uniform>` at binding 0.
    pub params: ParamsLayout,
    /// Buffers from binding 1 on.
    pub bindings: &'static [Binding],
}

impl KernelSource {
    /// Workgroups that cover `invocations` of each axis.
    pub fn groups(&self, invocations: [usize; 3]) -> [u32; 3] {
        [0, 1, 2].map(|axis| invocations[axis].div_ceil(self.workgroup[axis] as usize) as u32)
    }

    /// Workgroups that cover `n` invocations in a row, in rows of at most 32768: the shader counts them with `flat_index`
    /// of `shaders/shared/flat_index.wgsl`.
    pub fn flat_groups(&self, n: usize) -> [u32; 3] {
        const LONGEST_ROW: usize = 32768;
        let groups = n.div_ceil(self.workgroup.iter().product::<u32>() as usize);
        let row = groups.clamp(1, LONGEST_ROW);
        [row as u32, groups.div_ceil(row) as u32, 1]
    }
}

/// A kernel's pipeline on a device. A clone is another handle of the same.
#[derive(Clone, Debug)]
pub struct Kernel {
    gpu: Gpu,
    pub(super) source: &'static KernelSource,
    pub(super) made: Made,
}

/// A compiled shader. The device keeps it, so it must not keep the device: it would never be closed.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

/// A kernel tied to parameters and buffers: what a recording dispatches.
#[derive(Clone, Debug)]
pub struct Bound {
    pub(super) kernel: Kernel,
    pub(super) group: wgpu::BindGroup,
    params: Arc<Allocation>,
    /// What the parameters are.
    values: Arc<Mutex<Vec<u8>>>,
    /// Keeps the account of what the group keeps alive.
    _buffers: Vec<Arc<Allocation>>,
}

impl Gpu {
    /// The pipeline of `source`, made at the first call. `constants` are values of the shader's `override` constants;
    /// each set of values is a pipeline of its own.
    ///
    /// # Errors
    /// The shader does not compile.
    pub fn kernel(
        &self,
        source: &'static KernelSource,
        constants: &[(&str, f64)],
    ) -> Result<Kernel, DeviceError> {
        let key = constants.iter().fold(source.name.to_owned(), |mut key, (name, value)| {
            let _ = write!(key, " {name}={value}");
            key
        });
        self.kernel_by_key(key, source, || self.compile(source, source.wgsl, constants))
    }

    /// The pipeline of another text of `source`, made at the first call with that text. For what `override` constants
    /// cannot say: lengths of arrays, features.
    ///
    /// # Errors
    /// The shader does not compile.
    pub fn kernel_of_text(&self, source: &'static KernelSource, wgsl: &str) -> Result<Kernel, DeviceError> {
        self.kernel_by_key(wgsl.to_owned(), source, || self.compile(source, wgsl, &[]))
    }

    /// Refuses `bytes` of workgroup memory for `kernel` where the adapter has less.
    ///
    /// # Errors
    /// So it is.
    pub fn check_workgroup_memory(&self, kernel: &'static str, bytes: usize) -> Result<(), DeviceError> {
        let limit = self.0.limits.max_compute_workgroup_storage_size as usize;
        if bytes > limit {
            return Err(DeviceError::WorkgroupMemory { kernel, bytes, limit, adapter: self.name() });
        }
        Ok(())
    }

    fn kernel_by_key(
        &self,
        key: String,
        source: &'static KernelSource,
        make: impl FnOnce() -> Result<Made, DeviceError>,
    ) -> Result<Kernel, DeviceError> {
        let mut kernels = self.0.kernels.lock();
        let made = match kernels.get(&key) {
            Some(made) => made.clone(),
            None => kernels.entry(key).insert_entry(make()?).get().clone(),
        };
        Ok(Kernel { gpu: self.clone(), source, made })
    }

    fn compile(
        &self,
        source: &'static KernelSource,
        wgsl: &str,
        constants: &[(&str, f64)],
    ) -> Result<Made, DeviceError> {
        let (buffers, limit) =
            (source.bindings.len(), self.0.limits.max_storage_buffers_per_shader_stage as usize);
        if buffers > limit {
            let (kernel, adapter) = (source.name, self.name());
            return Err(DeviceError::StorageBuffers { kernel, buffers, limit, adapter });
        }
        let device = &self.0.device;
        let made = self.scoped(|| {
            let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: Some(source.name),
                entries: &layout_entries(source),
            });
            let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some(source.name),
                source: wgpu::ShaderSource::Wgsl(wgsl.into()),
            });
            let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some(source.name),
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            });
            let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(source.name),
                layout: Some(&pipeline_layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants,
                    // Every kernel writes its workgroup memory before it uses it.
                    zero_initialize_workgroup_memory: false,
                },
                cache: None,
            });
            Made { pipeline, layout }
        });
        self.check(source.name)?;
        made.map_err(|error| DeviceError::Shader {
            kernel: source.name,
            adapter: self.name(),
            message: error.to_string(),
        })
    }
}

fn layout_entries(source: &KernelSource) -> Vec<wgpu::BindGroupLayoutEntry> {
    let entry = |binding: usize, ty, min_binding_size| wgpu::BindGroupLayoutEntry {
        binding: binding as u32,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size },
        count: None,
    };
    let params = entry(0, wgpu::BufferBindingType::Uniform, NonZeroU64::new(source.params.size as u64));
    let buffers = source.bindings.iter().enumerate().map(|(i, binding)| {
        let read_only = binding.access == Access::Read;
        entry(i + 1, wgpu::BufferBindingType::Storage { read_only }, None)
    });
    [params].into_iter().chain(buffers).collect()
}

impl Kernel {
    /// What the files declare.
    pub fn source(&self) -> &'static KernelSource {
        self.source
    }

    /// Ties the kernel to `params` and to `buffers`, one for each of the source's bindings, in their order. One buffer may
    /// be bound twice only where both read.
    ///
    /// # Errors
    /// The device was lost or has no memory for the parameters.
    ///
    /// # Panics
    /// The size of `params` or the number of buffers is not the source's.
    pub fn bind<P: Pod>(&self, params: &P, buffers: &[&dyn AnyBuffer]) -> Result<Bound, DeviceError> {
        let (gpu, name) = (&self.gpu, self.source.name);
        assert_eq!(buffers.len(), self.source.bindings.len(), "buffers of {name}");
        let usage = BufferUsages::UNIFORM | BufferUsages::COPY_DST;
        let params_memory = gpu.allocate("parameters", self.source.params.size as u64, 4, usage)?;
        let memory: Vec<Arc<Allocation>> = buffers.iter().map(|buffer| buffer.memory().0).collect();
        let bound = [&params_memory].into_iter().chain(&memory).enumerate();
        let entries: Vec<_> = bound
            .map(|(i, memory)| wgpu::BindGroupEntry {
                binding: i as u32,
                resource: memory.raw.as_entire_binding(),
            })
            .collect();
        let descriptor =
            wgpu::BindGroupDescriptor { label: Some(name), layout: &self.made.layout, entries: &entries };
        let made = gpu.scoped(|| gpu.0.device.create_bind_group(&descriptor));
        gpu.check(name)?;
        let group = made.map_err(|error| DeviceError::Invalid {
            adapter: gpu.name(),
            what: format!("the buffers of {name}"),
            message: error.to_string(),
        })?;
        let values = Arc::default();
        let bound = Bound { kernel: self.clone(), group, params: params_memory, values, _buffers: memory };
        bound.set(params);
        Ok(bound)
    }
}

impl Bound {
    /// Other parameters from the next submission on; nothing is written where they are the same. Two dispatches of one
    /// submission see the same: bind twice where they must differ.
    ///
    /// # Panics
    /// The size of `params` is not the source's.
    pub fn set<P: Pod>(&self, params: &P) {
        let source = self.kernel.source;
        assert_eq!(size_of::<P>(), source.params.size, "parameters of {}", source.name);
        let (bytes, mut values) = (bytemuck::bytes_of(params), self.values.lock());
        if *values != bytes {
            self.kernel.gpu.0.queue.write_buffer(&self.params.raw, 0, bytes);
            *values = bytes.to_vec();
        }
    }

    /// What the files declare.
    pub fn source(&self) -> &'static KernelSource {
        self.kernel.source
    }
}

/// Reads and checks the text of a shader that may use subgroups, without any adapter.
///
/// # Errors
/// What is wrong, with the lines.
#[cfg(test)]
pub(crate) fn validate(text: &str) -> Result<(), String> {
    use wgpu::naga::{front::wgsl::parse_str, valid};
    let module = parse_str(text).map_err(|error| error.emit_to_string(text))?;
    let validated = valid::Validator::new(valid::ValidationFlags::all(), valid::Capabilities::SUBGROUP)
        .subgroup_operations(valid::SubgroupOperationSet::all())
        .subgroup_stages(valid::ShaderStages::COMPUTE)
        .validate(&module);
    validated.map(drop).map_err(|error| error.emit_to_string(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_every_invocation() {
        let source = KernelSource {
            name: "none",
            wgsl: "",
            workgroup: [8, 4, 1],
            params: ParamsLayout { size: 4, members: &[] },
            bindings: &[],
        };
        assert_eq!(source.groups([17, 8, 1]), [3, 2, 1]);
        assert_eq!(source.groups([0, 8, 1]), [0, 2, 1]);
        assert_eq!(source.flat_groups(33), [2, 1, 1]);
        assert_eq!(source.flat_groups(0), [1, 0, 1]);
        for n in [1, 32 * 32768, 32 * 32768 + 1, 100_000_000] {
            let [x, y, _] = source.flat_groups(n);
            assert!(x <= 65535 && y <= 65535 && x as usize * y as usize * 32 >= n, "{n}: {x} x {y}");
        }
    }
}
