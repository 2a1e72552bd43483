//! Memory of the device and of its readbacks, every byte accounted for by name.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use parking_lot::Mutex;
use wgpu::BufferUsages;

use super::error::DeviceError;
use super::gpu::Gpu;

/// The live buffers.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    /// How many there are of a name and a number of bytes.
    live: BTreeMap<(&'static str, u64), usize>,
    /// Bytes of all, and the most they ever were.
    total: u64,
    peak: u64,
}

impl Ledger {
    fn add(&self, name: &'static str, bytes: u64) {
        let mut entries = self.0.lock();
        *entries.live.entry((name, bytes)).or_default() += 1;
        entries.total += bytes;
        entries.peak = entries.peak.max(entries.total);
    }

    fn remove(&self, name: &'static str, bytes: u64) {
        let mut entries = self.0.lock();
        let left = entries.live.get_mut(&(name, bytes)).map_or(0, |n| {
            *n -= 1;
            *n
        });
        if left == 0 {
            entries.live.remove(&(name, bytes));
        }
        entries.total -= bytes;
    }

    pub fn total(&self) -> u64 {
        self.0.lock().total
    }

    pub fn peak(&self) -> u64 {
        self.0.lock().peak
    }

    pub fn by_name(&self) -> Vec<(&'static str, u64)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (&(name, bytes), &n) in self.0.lock().live.iter() {
            *sums.entry(name).or_default() += n as u64 * bytes;
        }
        sums.into_iter().collect()
    }

    pub fn buffers(&self) -> Vec<(&'static str, u64)> {
        self.0.lock().live.iter().flat_map(|(&buffer, &n)| std::iter::repeat_n(buffer, n)).collect()
    }
}

/// A buffer of wgpu that the ledger knows as long as it lives.
#[derive(Debug)]
pub(super) struct Allocation {
    pub raw: wgpu::Buffer,
    name: &'static str,
    bytes: u64,
    ledger: Arc<Ledger>,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.ledger.remove(self.name, self.bytes);
    }
}

/// `len` values of `T` on the device. A clone is another handle of the same memory.
#[derive(Debug)]
pub struct Buffer<T> {
    pub(super) memory: Arc<Allocation>,
    len: usize,
    element: PhantomData<T>,
}

impl<T> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Buffer { memory: self.memory.clone(), len: self.len, element: PhantomData }
    }
}

impl<T> Buffer<T> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Name in messages and in the account.
    pub fn name(&self) -> &'static str {
        self.memory.name
    }

    /// Bytes on the device: those of the values, rounded up to four, at least one value.
    pub fn bytes(&self) -> u64 {
        self.memory.bytes
    }
}

/// A buffer of any element, to be bound.
pub trait AnyBuffer {
    #[doc(hidden)]
    fn memory(&self) -> Handle;
}

/// What `AnyBuffer` hands to the device; opaque elsewhere.
#[doc(hidden)]
#[derive(Debug)]
pub struct Handle(pub(super) Arc<Allocation>);

impl<T> AnyBuffer for Buffer<T> {
    fn memory(&self) -> Handle {
        Handle(self.memory.clone())
    }
}

/// `len` values of `T` in memory of the host that the device copies results to.
#[derive(Debug)]
pub struct Readback<T> {
    pub(super) memory: Arc<Allocation>,
    pub(super) state: Arc<Mutex<ReadbackState>>,
    gpu: Gpu,
    len: usize,
    element: PhantomData<T>,
}

/// Where a readback stands, with the number of bytes of the copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ReadbackState {
    /// No copy was submitted.
    Idle,
    /// A copy is under way.
    Pending(u64),
    /// The copy can be taken.
    Mapped(u64),
    /// The copy did not arrive.
    Failed,
}

impl<T: Pod> Readback<T> {
    /// Number of values it has room for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has room for none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The values of the last copy, once its submission was waited for.
    ///
    /// # Errors
    /// The device was lost before they came.
    ///
    /// # Panics
    /// No copy was submitted, or it was not waited for.
    pub fn take(&self) -> Result<Vec<T>, DeviceError> {
        self.gpu.check("a readback")?;
        let mut state = self.state.lock();
        let ReadbackState::Mapped(bytes) = *state else {
            panic!("readback \"{}\" is {state:?}: submit a copy and wait for it", self.memory.name);
        };
        if bytes == 0 {
            *state = ReadbackState::Idle;
            return Ok(Vec::new());
        }
        let view = self.memory.raw.slice(..bytes.next_multiple_of(4)).get_mapped_range();
        let view = view.map_err(|error| DeviceError::Invalid {
            adapter: self.gpu.name(),
            what: format!("the readback \"{}\"", self.memory.name),
            message: error.to_string(),
        })?;
        let mut values = vec![T::zeroed(); bytes as usize / size_of::<T>()];
        bytemuck::cast_slice_mut(&mut values).copy_from_slice(&view[..bytes as usize]);
        drop(view);
        self.memory.raw.unmap();
        *state = ReadbackState::Idle;
        Ok(values)
    }
}

impl Gpu {
    /// Memory for `len` values, zero at first.
    ///
    /// # Errors
    /// More than the adapter allows or has.
    pub fn buffer<T: Pod>(&self, name: &'static str, len: usize) -> Result<Buffer<T>, DeviceError> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let memory = self.allocate(name, (len * size_of::<T>()) as u64, size_of::<T>() as u64, usage)?;
        Ok(Buffer { memory, len, element: PhantomData })
    }

    /// Memory that holds `values`.
    ///
    /// # Errors
    /// As `buffer`.
    pub fn buffer_with<T: Pod>(&self, name: &'static str, values: &[T]) -> Result<Buffer<T>, DeviceError> {
        let buffer = self.buffer(name, values.len())?;
        self.write(&buffer, 0, values);
        Ok(buffer)
    }

    /// Memory of the host for copies of up to `len` values.
    ///
    /// # Errors
    /// As `buffer`.
    pub fn readback<T: Pod>(&self, name: &'static str, len: usize) -> Result<Readback<T>, DeviceError> {
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let memory = self.allocate(name, (len * size_of::<T>()) as u64, size_of::<T>() as u64, usage)?;
        let state = Arc::new(Mutex::new(ReadbackState::Idle));
        Ok(Readback { memory, state, gpu: self.clone(), len, element: PhantomData })
    }

    /// Writes `values` to `buffer` from element `first` on, before the next submission. Bytes behind them, up to a multiple of
    /// four, become zero.
    ///
    /// # Panics
    /// The values do not fit, or `first` is not at a multiple of four bytes.
    pub fn write<T: Pod>(&self, buffer: &Buffer<T>, first: usize, values: &[T]) {
        let end = first + values.len();
        assert!(end <= buffer.len, "{end} values for \"{}\" of {}", buffer.name(), buffer.len);
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let offset = (first * size_of::<T>()) as u64;
        assert!(offset.is_multiple_of(4), "a write to \"{}\" at byte {offset}", buffer.name());
        let (words, rest) = bytes.split_at(bytes.len() / 4 * 4);
        self.0.queue.write_buffer(&buffer.memory.raw, offset, words);
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            self.0.queue.write_buffer(&buffer.memory.raw, offset + words.len() as u64, &last);
        }
    }

    /// All values of `buffer`, in a submission of its own: for tests and rare moments.
    ///
    /// # Errors
    /// The device was lost, or there is no memory for the copy.
    pub fn download<T: Pod>(&self, buffer: &Buffer<T>) -> Result<Vec<T>, DeviceError> {
        let readback = self.readback("download", buffer.len)?;
        let mut recording = self.record(buffer.name());
        recording.read(buffer, 0..buffer.len, &readback);
        recording.submit()?.wait()?;
        readback.take()
    }

    pub(super) fn allocate(
        &self,
        name: &'static str,
        bytes: u64,
        at_least: u64,
        usage: BufferUsages,
    ) -> Result<Arc<Allocation>, DeviceError> {
        let bytes = bytes.max(at_least).next_multiple_of(4);
        let is_bound = usage.contains(BufferUsages::STORAGE);
        let limit = if is_bound { self.largest_binding_bytes() } else { self.0.limits.max_buffer_size };
        if bytes > limit {
            return Err(DeviceError::TooLarge { buffer: name, bytes, limit, adapter: self.name() });
        }
        let descriptor =
            wgpu::BufferDescriptor { label: Some(name), size: bytes, usage, mapped_at_creation: false };
        let made = self.scoped(|| self.0.device.create_buffer(&descriptor));
        self.check(name)?;
        let raw = made.map_err(|error| match error {
            wgpu::Error::OutOfMemory { .. } => DeviceError::OutOfMemory {
                buffer: name,
                bytes,
                resident: self.resident_bytes(),
                adapter: self.name(),
            },
            error => DeviceError::Invalid {
                adapter: self.name(),
                what: format!("the buffer \"{name}\""),
                message: error.to_string(),
            },
        })?;
        let ledger = self.0.ledger.clone();
        ledger.add(name, bytes);
        Ok(Arc::new(Allocation { raw, name, bytes, ledger }))
    }
}

/// A range of elements in bytes, its length rounded up to four.
pub(super) fn byte_range<T>(range: &Range<usize>) -> (u64, u64) {
    let (start, len) = (range.start * size_of::<T>(), range.len() * size_of::<T>());
    (start as u64, len.next_multiple_of(4) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_exact_by_name() {
        let ledger = Ledger::default();
        ledger.add("b", 8);
        ledger.add("a", 4);
        ledger.add("b", 16);
        assert_eq!((ledger.total(), ledger.by_name()), (28, vec![("a", 4), ("b", 24)]));
        ledger.remove("a", 4);
        ledger.remove("b", 8);
        assert_eq!((ledger.total(), ledger.by_name()), (16, vec![("b", 16)]));
        ledger.add("b", 16);
        assert_eq!((ledger.total(), ledger.buffers()), (32, vec![("b", 16), ("b", 16)]));
        ledger.remove("b", 16);
        assert_eq!((ledger.total(), ledger.by_name()), (16, vec![("b", 16)]));
    }

    #[test]
    fn copies_are_whole_words() {
        assert_eq!(byte_range::<u8>(&(4..9)), (4, 8));
        assert_eq!(byte_range::<f32>(&(2..5)), (8, 12));
    }
}
