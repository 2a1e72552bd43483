//! What wgpu says of the device's memory, beside the account of `Gpu::resident`.

use super::gpu::Gpu;

/// How wgpu names buffers of its own.
const OWN: &str = "(wgpu internal)";

/// Memory as wgpu's allocator has it, and as wgpu counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// Of each `Buffer`, `Readback`, set of parameters or timestamps, by name.
    pub buffers: Vec<Allocation>,
    /// The same of what wgpu made for itself: zeros to copy from, writes that wait for a submission.
    pub internal: Vec<Allocation>,
    /// Bytes of the blocks that the driver gave for all of these.
    pub reserved: u64,
    /// What wgpu counted where it made and destroyed all of these.
    pub counted: Counted,
}

/// What wgpu's counters say of its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Live buffers.
    pub buffers: u64,
    /// Their bytes as the driver wants them: nothing that alignment skips in front, but with what it rounds sizes up by.
    pub bytes: u64,
}

/// A range of a block: what was asked for, behind what its alignment skips.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allocation {
    /// Name of the buffer.
    pub name: String,
    /// First byte in the block, before the skipped ones.
    pub offset: u64,
    /// Bytes, the skipped ones among them.
    pub bytes: u64,
}

impl Allocation {
    /// Bytes without those that `alignment` skips.
    pub fn bytes_aligned_to(&self, alignment: u64) -> u64 {
        (self.offset + self.bytes).saturating_sub(self.offset.next_multiple_of(alignment))
    }
}

impl Gpu {
    /// What wgpu has allocated once all that was written and submitted is done: until then it keeps what was dropped.
    /// None where the interface does not tell: Metal.
    pub fn allocated(&self) -> Option<Allocated> {
        self.0.queue.submit([]);
        self.poll(wgpu::PollType::wait_indefinitely());
        let report = self.0.device.generate_allocator_report()?;
        let all = report.allocations.into_iter();
        let mut all: Vec<_> = all
            .map(|found| Allocation { name: found.name, offset: found.offset, bytes: found.size })
            .collect();
        all.sort();
        let (internal, buffers) = all.into_iter().partition(|found| found.name.starts_with(OWN));
        let hal = self.0.device.get_internal_counters().hal;
        let counted = Counted { buffers: hal.buffers.read() as u64, bytes: hal.buffer_memory.read() as u64 };
        Some(Allocated { buffers, internal, reserved: report.total_reserved_bytes, counted })
    }
}
