//! What the shaders declare is what the host believes: bindings, workgroups, parameters. No adapter is needed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use trackweave::device::{Access, Binding, KernelSource};
use trackweave::kernels::KERNELS;
use wgpu::naga::{AddressSpace, Module, StorageAccess, TypeInner, front::wgsl};

fn parsed(kernel: &KernelSource) -> Module {
    wgsl::parse_str(kernel.wgsl)
        .unwrap_or_else(|error| panic!("{}: {}", kernel.name, error.emit_to_string(kernel.wgsl)))
}

/// The group's variables by binding.
fn variables(module: &Module) -> BTreeMap<u32, (String, AddressSpace)> {
    let bound = module.global_variables.iter().filter_map(|(_, variable)| {
        let binding = variable.binding.as_ref()?;
        assert_eq!(binding.group, 0);
        Some((binding.binding, (variable.name.clone().unwrap_or_default(), variable.space)))
    });
    bound.collect()
}

#[test]
fn bindings_are_what_the_host_binds() {
    for kernel in KERNELS {
        let mut variables = variables(&parsed(kernel));
        let params = variables.remove(&0);
        assert_eq!(params, Some(("params".into(), AddressSpace::Uniform)), "{}", kernel.name);
        let declared: Vec<Binding> = kernel.bindings.to_vec();
        let found: Vec<(u32, String, Access)> = variables
            .into_iter()
            .map(|(binding, (name, space))| match space {
                AddressSpace::Storage { access } if access == StorageAccess::LOAD => {
                    (binding, name, Access::Read)
                }
                AddressSpace::Storage { .. } => (binding, name, Access::ReadWrite),
                other => panic!("{}: {name} lies in {other:?}", kernel.name),
            })
            .collect();
        let declared: Vec<_> = (1..).zip(declared).map(|(i, b)| (i, b.name.to_owned(), b.access)).collect();
        assert_eq!(found, declared, "{}", kernel.name);
    }
}

#[test]
fn workgroups_are_what_the_host_counts_with() {
    for kernel in KERNELS {
        let module = parsed(kernel);
        let [entry] = &module.entry_points[..] else { panic!("{}: one entry point", kernel.name) };
        assert_eq!(
            (entry.name.as_str(), entry.workgroup_size),
            ("main", kernel.workgroup),
            "{}",
            kernel.name
        );
        assert!(kernel.workgroup.iter().product::<u32>() <= 256, "{}: every adapter has 256", kernel.name);
    }
}

#[test]
fn parameters_lie_where_the_host_writes_them() {
    for kernel in KERNELS {
        let module = parsed(kernel);
        let (_, params) = module
            .global_variables
            .iter()
            .find(|(_, variable)| variable.space == AddressSpace::Uniform)
            .unwrap_or_else(|| panic!("{} has no parameters", kernel.name));
        let TypeInner::Struct { members, span } = &module.types[params.ty].inner else {
            panic!("{}: parameters are a struct", kernel.name)
        };
        let found: Vec<(&str, usize)> =
            members.iter().map(|m| (m.name.as_deref().unwrap_or_default(), m.offset as usize)).collect();
        assert_eq!(
            (found, *span as usize),
            (kernel.params.members.to_vec(), kernel.params.size),
            "{}",
            kernel.name
        );
    }
}

#[test]
fn every_shader_has_its_twin_beside_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut shaders: Vec<String> = fs::read_dir(root.join("shaders"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    shaders.sort();
    let mut kernels = KERNELS.map(|kernel| kernel.name.to_owned()).to_vec();
    kernels.sort();
    assert_eq!(shaders, kernels, "files in shaders/ and rows of KERNELS");
    for name in kernels {
        assert!(root.join(format!("src/kernels/{name}.rs")).is_file(), "{name} has no twin");
    }
}
