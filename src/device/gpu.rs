//! An open device.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::adapter::{self, Adapter};
use super::buffer::Ledger;
use super::error::DeviceError;
use super::kernel::Made;

/// A device and its queue. A clone is another handle of the same.
#[derive(Clone, Debug)]
pub struct Gpu(pub(super) Arc<Open>);

#[derive(Debug)]
pub(super) struct Open {
    pub adapter: Adapter,
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub limits: wgpu::Limits,
    pub smallest_subgroup: u32,
    /// Nanoseconds of a tick where passes can be timed.
    pub tick_ns: Option<f64>,
    pub ledger: Arc<Ledger>,
    pub kernels: Mutex<HashMap<String, Made>>,
    pub n_dispatches: AtomicU64,
    pub n_submissions: AtomicU64,
    faults: Arc<Mutex<Faults>>,
}

/// What went wrong outside of a call that could have said so.
#[derive(Debug, Default)]
struct Faults {
    lost: Option<String>,
    invalid: Option<String>,
    last_submission: String,
}

/// Work so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Dispatches recorded.
    pub dispatches: u64,
    /// Submissions.
    pub submissions: u64,
}

impl Gpu {
    /// The adapters of this machine.
    pub fn adapters() -> Vec<Adapter> {
        found().iter().map(|found| Adapter::describe(&found.get_info())).collect()
    }

    /// Opens the first adapter whose name holds `name` in any case, or the first real GPU. The device gets all the limits
    /// of its adapter, and subgroups and timestamps where they are offered.
    ///
    /// # Errors
    /// There is no such adapter, or the driver refuses.
    pub fn open(name: Option<&str>) -> Result<Gpu, DeviceError> {
        let found = found();
        let adapters: Vec<Adapter> = found.iter().map(|a| Adapter::describe(&a.get_info())).collect();
        let index = adapter::choose(&adapters, name)?;
        let (chosen, adapter) = (&found[index], adapters[index].clone());
        let wanted = wgpu::Features::SUBGROUP | wgpu::Features::TIMESTAMP_QUERY;
        let request = wgpu::DeviceDescriptor {
            label: Some("trackweave"),
            required_features: chosen.features() & wanted,
            required_limits: chosen.limits(),
            ..Default::default()
        };
        let (device, queue) = ready(chosen.request_device(&request)).map_err(|error| {
            DeviceError::Refused { adapter: adapter.to_string(), reason: error.to_string() }
        })?;
        let faults = Arc::new(Mutex::new(Faults::default()));
        watch(&device, &faults);
        let is_timed = device.features().contains(wgpu::Features::TIMESTAMP_QUERY);
        Ok(Gpu(Arc::new(Open {
            adapter,
            limits: device.limits(),
            smallest_subgroup: chosen.get_info().subgroup_min_size,
            tick_ns: is_timed.then(|| queue.get_timestamp_period() as f64),
            device,
            queue,
            ledger: Arc::default(),
            kernels: Mutex::default(),
            n_dispatches: AtomicU64::new(0),
            n_submissions: AtomicU64::new(0),
            faults,
        })))
    }

    /// The adapter that was opened.
    pub fn adapter(&self) -> &Adapter {
        &self.0.adapter
    }

    /// Lanes of the smallest subgroups that the adapter may run, none where shaders may not use subgroups.
    pub fn smallest_subgroup(&self) -> Option<usize> {
        let has_subgroups = self.0.device.features().contains(wgpu::Features::SUBGROUP);
        has_subgroups.then_some(self.0.smallest_subgroup as usize)
    }

    /// Bytes of the largest buffer that shaders can use.
    pub fn largest_binding_bytes(&self) -> u64 {
        self.0.limits.max_buffer_size.min(self.0.limits.max_storage_buffer_binding_size)
    }

    /// Bytes of all live buffers: parameters and readbacks too. A buffer lives as long as something is bound to it.
    pub fn resident_bytes(&self) -> u64 {
        self.0.ledger.total()
    }

    /// The most that `resident_bytes` ever was.
    pub fn peak_bytes(&self) -> u64 {
        self.0.ledger.peak()
    }

    /// Bytes of the live buffers by name, ascending.
    pub fn resident(&self) -> Vec<(&'static str, u64)> {
        self.0.ledger.by_name()
    }

    /// Name and bytes of each live buffer, ascending.
    pub fn buffers(&self) -> Vec<(&'static str, u64)> {
        self.0.ledger.buffers()
    }

    /// Work so far.
    pub fn counts(&self) -> Counts {
        Counts {
            dispatches: self.0.n_dispatches.load(Ordering::Relaxed),
            submissions: self.0.n_submissions.load(Ordering::Relaxed),
        }
    }

    /// Loses the device on purpose: every later call that can fail does so with `DeviceError::Lost`.
    pub fn lose(&self) {
        self.0.device.destroy();
        self.poll(wgpu::PollType::Poll);
    }

    /// The adapter's name in messages.
    pub(super) fn name(&self) -> String {
        self.0.adapter.to_string()
    }

    /// Runs `op` and returns what wgpu says against it.
    pub(super) fn scoped<T>(&self, op: impl FnOnce() -> T) -> Result<T, wgpu::Error> {
        use wgpu::ErrorFilter::{Internal, OutOfMemory, Validation};
        let scopes = [OutOfMemory, Internal, Validation].map(|filter| self.0.device.push_error_scope(filter));
        let made = op();
        let errors = scopes.into_iter().rev().filter_map(|scope| ready(scope.pop()));
        errors.last().map_or(Ok(made), Err)
    }

    /// The loss or the error that `what` brought up, if any.
    pub(super) fn check(&self, what: &str) -> Result<(), DeviceError> {
        let mut faults = self.0.faults.lock();
        if let Some(reason) = faults.lost.clone() {
            let submission = faults.last_submission.clone();
            return Err(DeviceError::Lost { adapter: self.name(), reason, submission });
        }
        match faults.invalid.take() {
            Some(message) => {
                Err(DeviceError::Invalid { adapter: self.name(), what: what.to_owned(), message })
            }
            None => Ok(()),
        }
    }

    pub(super) fn note_submission(&self, label: &str) {
        let number = self.0.n_submissions.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.faults.lock().last_submission = format!("{number} ({label})");
    }

    /// Polls or waits. wgpu panics where the driver reports a loss while it waits: that is a loss like any other.
    pub(super) fn poll(&self, how: wgpu::PollType) {
        let poll = |how| catch_unwind(AssertUnwindSafe(|| self.0.device.poll(how)));
        let reason = match poll(how) {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => {
                // The submission to wait for was refused: another thread lost the device. Why is told by the next poll.
                let _ = poll(wgpu::PollType::wait_indefinitely());
                error.to_string()
            }
            Err(_) => "the driver reports a loss".into(),
        };
        self.0.faults.lock().lost.get_or_insert(reason);
    }
}

/// Makes losses and errors outside of scopes known to `Gpu::check`.
fn watch(device: &wgpu::Device, faults: &Arc<Mutex<Faults>>) {
    let invalid = faults.clone();
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        invalid.lock().invalid.get_or_insert(error.to_string());
    }));
    let lost = faults.clone();
    device.set_device_lost_callback(move |reason, message| {
        let reason = match reason {
            wgpu::DeviceLostReason::Destroyed => "destroyed".to_owned(),
            wgpu::DeviceLostReason::Unknown => message,
        };
        lost.lock().lost.get_or_insert(reason);
    });
}

fn found() -> Vec<wgpu::Adapter> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    ready(instance.enumerate_adapters(wgpu::Backends::all()))
}

/// The value of a future that native wgpu has ready.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}
