//! Dispatches recorded for one submission, with copies to the host and the times of passes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use parking_lot::Mutex;
use wgpu::BufferUsages;

use super::adapter::AdapterKind;
use super::buffer::{Allocation, Buffer, Readback, ReadbackState, byte_range};
use super::error::DeviceError;
use super::gpu::Gpu;
use super::kernel::Bound;

/// Passes of a recording that can be timed.
const MAX_PASSES: u32 = 32;

/// How long a wait stays awake: the thread that sleeps until a GPU is done wakes up to 0.1 ms late.
const AWAKE: Duration = Duration::from_millis(1);

/// What the device took for a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassTime {
    /// Name of the pass.
    pub name: &'static str,
    /// Milliseconds from its first dispatch to the end of its last.
    pub ms: f64,
}

/// Dispatches and copies on their way to one submission. Each dispatch sees what those before it wrote.
pub struct Recording {
    gpu: Gpu,
    label: &'static str,
    encoder: wgpu::CommandEncoder,
    pass: Option<wgpu::ComputePass<'static>>,
    n_dispatches: u64,
    copies: Vec<Copy>,
    timer: Option<Timer>,
}

/// A copy to the host that is to be mapped.
struct Copy {
    memory: Arc<Allocation>,
    state: Arc<Mutex<ReadbackState>>,
    bytes: u64,
}

struct Timer {
    set: wgpu::QuerySet,
    resolved: Arc<Allocation>,
    ticks: Readback<u64>,
    passes: Vec<&'static str>,
    tick_ns: f64,
}

impl Gpu {
    /// A recording without passes of its own: all dispatches share one.
    pub fn record(&self, label: &'static str) -> Recording {
        let encoder =
            self.0.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some(label) });
        Recording {
            gpu: self.clone(),
            label,
            encoder,
            pass: None,
            n_dispatches: 0,
            copies: Vec::new(),
            timer: None,
        }
    }

    /// A recording whose passes are timed where the adapter offers timestamps.
    ///
    /// # Errors
    /// There is no memory for the timestamps, or the device was lost.
    pub fn record_timed(&self, label: &'static str) -> Result<Recording, DeviceError> {
        let timer = self.0.tick_ns.map(|tick_ns| Timer::new(self, tick_ns)).transpose()?;
        Ok(Recording { timer, ..self.record(label) })
    }
}

impl Timer {
    fn new(gpu: &Gpu, tick_ns: f64) -> Result<Timer, DeviceError> {
        let (name, n_ticks) = ("timestamps", 2 * MAX_PASSES as usize);
        let usage = BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC;
        let resolved = gpu.allocate(name, 8 * n_ticks as u64, 8, usage)?;
        let ticks = gpu.readback(name, n_ticks)?;
        let set = gpu.0.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some(name),
            ty: wgpu::QueryType::Timestamp,
            count: 2 * MAX_PASSES,
        });
        Ok(Timer { set, resolved, ticks, passes: Vec::new(), tick_ns })
    }

    fn times(&self) -> Result<Vec<PassTime>, DeviceError> {
        if self.passes.is_empty() {
            return Ok(Vec::new());
        }
        let ticks = self.ticks.take()?;
        let pairs = self.passes.iter().zip(ticks.chunks_exact(2));
        let ms = |pair: &[u64]| pair[1].saturating_sub(pair[0]) as f64 * self.tick_ns / 1e6;
        Ok(pairs.map(|(&name, pair)| PassTime { name, ms: ms(pair) }).collect())
    }
}

impl Recording {
    /// From here on dispatches belong to the pass `name`. Only a timed recording makes a difference of it.
    ///
    /// # Panics
    /// A timed recording has more than 32 passes.
    pub fn pass(&mut self, name: &'static str) -> &mut Self {
        if let Some(timer) = &mut self.timer {
            let index = 2 * timer.passes.len() as u32;
            assert!(index < 2 * MAX_PASSES, "\"{}\" has too many passes", self.label);
            timer.passes.push(name);
            self.pass = None;
            let descriptor = wgpu::ComputePassDescriptor {
                label: Some(name),
                timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                    query_set: &timer.set,
                    beginning_of_pass_write_index: Some(index),
                    end_of_pass_write_index: Some(index + 1),
                }),
            };
            self.pass = Some(self.encoder.begin_compute_pass(&descriptor).forget_lifetime());
        }
        self
    }

    /// Runs `bound` on `groups` workgroups: see `KernelSource::groups` and `flat_groups`. None where one of them is 0.
    pub fn dispatch(&mut self, bound: &Bound, groups: [u32; 3]) -> &mut Self {
        let pass = self.pass.get_or_insert_with(|| {
            let descriptor = wgpu::ComputePassDescriptor { label: Some(self.label), timestamp_writes: None };
            self.encoder.begin_compute_pass(&descriptor).forget_lifetime()
        });
        pass.set_pipeline(&bound.kernel.made.pipeline);
        pass.set_bind_group(0, &bound.group, &[]);
        pass.dispatch_workgroups(groups[0], groups[1], groups[2]);
        self.n_dispatches += 1;
        self
    }

    /// Copies a range of `from` to the start of `to`, behind what is recorded so far; one copy a readback.
    ///
    /// # Panics
    /// The range does not fit or does not begin at a multiple of four bytes.
    pub fn read<T: Pod>(&mut self, from: &Buffer<T>, range: Range<usize>, to: &Readback<T>) -> &mut Self {
        let fits = range.end <= from.len() && range.len() <= to.len();
        assert!(fits, "{range:?} of \"{}\" with {} into {}", from.name(), from.len(), to.len());
        if range.is_empty() {
            forget(&to.memory, &to.state);
            *to.state.lock() = ReadbackState::Mapped(0);
            return self;
        }
        let (start, bytes) = byte_range::<T>(&range);
        assert!(start.is_multiple_of(4), "a copy of \"{}\" from byte {start}", from.name());
        self.copy_to_host(&from.memory, start, bytes, to, (range.len() * size_of::<T>()) as u64);
        self
    }

    /// Copies a range of `from` to `to`, from its value `at` on, behind what is recorded so far.
    ///
    /// # Panics
    /// The range does not fit or an end of it is not at a multiple of four bytes.
    pub fn copy<T: Pod>(
        &mut self,
        from: &Buffer<T>,
        range: Range<usize>,
        to: &Buffer<T>,
        at: usize,
    ) -> &mut Self {
        let fits = range.end <= from.len() && at + range.len() <= to.len();
        assert!(fits, "{range:?} of \"{}\" with {} to {at} of {}", from.name(), from.len(), to.len());
        let [start, bytes, at] = [range.start, range.len(), at].map(|n| (n * size_of::<T>()) as u64);
        let is_whole = [start, bytes, at].iter().all(|n| n.is_multiple_of(4));
        assert!(is_whole, "a copy of \"{}\" from byte {start} to {at}", from.name());
        self.pass = None;
        self.encoder.copy_buffer_to_buffer(&from.memory.raw, start, &to.memory.raw, at, bytes);
        self
    }

    /// Makes all of a buffer zero, behind what is recorded so far.
    pub fn clear<T: Pod>(&mut self, buffer: &Buffer<T>) -> &mut Self {
        self.pass = None;
        self.encoder.clear_buffer(&buffer.memory.raw, 0, None);
        self
    }

    fn copy_to_host<T>(&mut self, from: &Allocation, start: u64, bytes: u64, to: &Readback<T>, wanted: u64) {
        let is_taken = self.copies.iter().any(|copy| Arc::ptr_eq(&copy.memory, &to.memory));
        assert!(!is_taken, "a second copy to a readback in \"{}\"", self.label);
        self.pass = None;
        self.encoder.copy_buffer_to_buffer(&from.raw, start, &to.memory.raw, 0, bytes);
        self.copies.push(Copy { memory: to.memory.clone(), state: to.state.clone(), bytes: wanted });
    }

    /// Hands everything to the device.
    ///
    /// # Errors
    /// The device was lost, or wgpu refuses what was recorded.
    pub fn submit(mut self) -> Result<Submission, DeviceError> {
        self.pass = None;
        if let Some(timer) = self.timer.take_if(|timer| !timer.passes.is_empty()) {
            let n_ticks = 2 * timer.passes.len() as u32;
            self.encoder.resolve_query_set(&timer.set, 0..n_ticks, &timer.resolved.raw, 0);
            let bytes = 8 * n_ticks as u64;
            self.copy_to_host(&timer.resolved, 0, bytes, &timer.ticks, bytes);
            self.timer = Some(timer);
        }
        let Recording { gpu, label, encoder, copies, timer, n_dispatches, .. } = self;
        for copy in &copies {
            forget(&copy.memory, &copy.state);
        }
        gpu.note_submission(label);
        gpu.0.n_dispatches.fetch_add(n_dispatches, Ordering::Relaxed);
        let index = gpu.0.queue.submit([encoder.finish()]);
        gpu.check(label)?;
        for Copy { memory, state, bytes } in &copies {
            let (state, bytes) = (state.clone(), *bytes);
            *state.lock() = ReadbackState::Pending(bytes);
            memory.raw.slice(..bytes.next_multiple_of(4)).map_async(wgpu::MapMode::Read, move |mapped| {
                *state.lock() = mapped.map_or(ReadbackState::Failed, |()| ReadbackState::Mapped(bytes));
            });
        }
        Ok(Submission { gpu, label, index, copies, timer })
    }
}

/// Lets go of what nobody took of an earlier copy.
fn forget(memory: &Allocation, state: &Mutex<ReadbackState>) {
    let before = std::mem::replace(&mut *state.lock(), ReadbackState::Idle);
    if matches!(before, ReadbackState::Pending(_) | ReadbackState::Mapped(1..)) {
        memory.raw.unmap();
    }
}

/// Work on its way through the device.
#[must_use = "wait for it, or what it does wrong is never known"]
pub struct Submission {
    gpu: Gpu,
    label: &'static str,
    index: wgpu::SubmissionIndex,
    copies: Vec<Copy>,
    timer: Option<Timer>,
}

impl Submission {
    /// Goes on without waiting: a later submission that is waited for tells what went wrong.
    pub fn leave(self) {}

    /// Waits until the device is done and the readbacks can be taken. Returns the times of the passes of a timed
    /// recording, in order, none where the adapter does not tell.
    ///
    /// # Errors
    /// The device was lost, or an earlier call was refused.
    pub fn wait(self) -> Result<Vec<PassTime>, DeviceError> {
        self.stay_awake();
        self.gpu.poll(wgpu::PollType::Wait { submission_index: Some(self.index), timeout: None });
        self.gpu.check(self.label)?;
        for copy in &self.copies {
            // Another thread that polls may have the answer in hand and not yet have handed it over.
            while matches!(*copy.state.lock(), ReadbackState::Pending(_)) {
                std::thread::yield_now();
                self.gpu.poll(wgpu::PollType::Poll);
                self.gpu.check(self.label)?;
            }
        }
        if self.copies.iter().any(|copy| *copy.state.lock() == ReadbackState::Failed) {
            return Err(DeviceError::Invalid {
                adapter: self.gpu.name(),
                what: self.label.to_owned(),
                message: "a copy to the host did not arrive".into(),
            });
        }
        self.timer.map_or(Ok(Vec::new()), |timer| timer.times())
    }

    /// Asks for the readbacks until they are there or it takes long. A software adapter needs the processor itself.
    fn stay_awake(&self) {
        let begin = Instant::now();
        let is_pending = |copy: &Copy| matches!(*copy.state.lock(), ReadbackState::Pending(_));
        let is_gpu = self.gpu.adapter().kind != AdapterKind::Software;
        while is_gpu && self.copies.iter().any(is_pending) && begin.elapsed() < AWAKE {
            self.gpu.poll(wgpu::PollType::Poll);
        }
    }
}
