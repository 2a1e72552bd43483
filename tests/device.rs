//! The device layer on the adapter that TRACKWEAVE_ADAPTER names: what it does, and the error of each fault.

use std::env;
use std::fs;
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};
use trackweave::device::{
    Adapter, AdapterKind, Backend, BackendChoice, Binding, Device, DeviceError, Gpu, KernelSource,
    ParamsLayout, Recording,
};

type Outcome = Result<(), Failed>;

static SCALE: KernelSource = KernelSource {
    name: "scale",
    wgsl: include_str!("device/scale.wgsl"),
    workgroup: [64, 1, 1],
    params: ParamsLayout { size: 4, members: &[("factor", 0)] },
    bindings: &[Binding::read("values"), Binding::read_write("scaled")],
};
static MISSPELT: KernelSource =
    KernelSource { name: "misspelt", wgsl: include_str!("device/misspelt.wgsl"), ..SCALE };
static ONE_TOO_FEW: KernelSource =
    KernelSource { name: "one_too_few", bindings: &[Binding::read("values")], ..SCALE };

/// Word that makes this program what `no_driver` starts.
const WITHOUT_DRIVERS: &str = "without-drivers";
/// Word that makes this program what `closed` starts.
const ONE_AFTER_ANOTHER: &str = "one-after-another";

fn main() {
    let adapter = env::var("TRACKWEAVE_ADAPTER").ok();
    match env::args().nth(1).as_deref() {
        Some(WITHOUT_DRIVERS) => return tell_what_opens(&adapter.expect("TRACKWEAVE_ADAPTER")),
        Some(ONE_AFTER_ANOTHER) => return tell_threads(&adapter.expect("TRACKWEAVE_ADAPTER")),
        _ => {}
    }
    let reason = if adapter.is_some() { "" } else { " (TRACKWEAVE_ADAPTER is not set)" };
    let trial = |name: &str, check: fn(&str) -> Outcome| {
        let adapter = adapter.clone().unwrap_or_default();
        Trial::test(name.to_owned() + reason, move || check(&adapter)).with_ignored_flag(!reason.is_empty())
    };
    let trials = vec![
        trial("the_choice_of_an_adapter", choice),
        trial("an_unknown_adapter_is_told_with_those_there_are", unknown_adapter),
        trial("without_a_driver_there_is_no_adapter", no_driver),
        trial("a_device_is_closed_with_its_last_handle", closed),
        trial("bytes_come_back_as_they_went", bytes_come_back),
        trial("dispatches_of_a_recording_see_each_other", dispatches_in_order),
        trial("constants_make_kernels_of_their_own", constants),
        trial("threads_get_their_own_answers", threads_share_a_device),
        trial("every_byte_is_accounted_for", every_byte_is_accounted_for),
        trial("passes_are_timed_where_the_adapter_tells", passes_are_timed),
        trial("a_buffer_beyond_the_limit_is_refused", too_large),
        trial("a_shader_that_does_not_compile_is_told", does_not_compile),
        trial("a_buffer_read_and_written_at_once_is_refused", read_and_written),
        trial("a_lost_device_fails_every_call", lost_device),
        trial("a_device_lost_under_work_fails_the_wait", lost_under_work),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// `scaled` = `factor` x 0, 1, 2, ... on the device.
fn scale(gpu: &Gpu, recording: &mut Recording, factor: f32, n: usize) -> Result<Vec<f32>, DeviceError> {
    let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let values = gpu.buffer_with("values", &values)?;
    let scaled = gpu.buffer::<f32>("scaled", n)?;
    let bound = gpu.kernel(&SCALE, &[])?.bind(&factor, &[&values, &scaled])?;
    recording.dispatch(&bound, SCALE.groups([n, 1, 1]));
    let whole = std::mem::replace(recording, gpu.record("scale"));
    whole.submit()?.wait()?;
    gpu.download(&scaled)
}

fn choice(name: &str) -> Outcome {
    let adapters = Gpu::adapters();
    let named = Device::choose(BackendChoice::Gpu, Some(name))?;
    let Device::Gpu(gpu) = &named else { return Err("a named adapter gives the CPU".into()) };
    assert!(gpu.adapter().name.to_lowercase().contains(&name.to_lowercase()));
    assert!(adapters.contains(gpu.adapter()) && named.backend() == Backend::Gpu);
    assert_eq!(named.adapter(), Some(gpu.adapter().name.as_str()));
    let on_cpu = Device::choose(BackendChoice::Cpu, None)?;
    assert_eq!((on_cpu.backend(), on_cpu.adapter()), (Backend::Cpu, None));
    let both = Device::choose(BackendChoice::Cpu, Some(name));
    assert!(matches!(both, Err(DeviceError::NotForCpu { .. })), "{both:?}");
    let is_real = |adapter: &Adapter| adapter.kind < AdapterKind::Unknown;
    match Device::choose(BackendChoice::Auto, None)? {
        Device::Gpu(gpu) => assert!(is_real(gpu.adapter()), "{} is no GPU", gpu.adapter()),
        Device::Cpu => assert!(!adapters.iter().any(is_real), "a GPU is overlooked: {adapters:?}"),
    }
    Ok(())
}

fn unknown_adapter(name: &str) -> Outcome {
    let error = Gpu::open(Some("no such thing")).expect_err("an adapter has that name");
    let DeviceError::UnknownAdapter { name: asked, found } = &error else {
        return Err(format!("{error:?}").into());
    };
    assert_eq!(asked, "no such thing");
    assert!(found.iter().any(|found| found.to_lowercase().contains(&name.to_lowercase())), "{found:?}");
    assert!(Device::choose(BackendChoice::Auto, Some("no such thing")).is_err());
    Ok(())
}

/// Each way to an adapter, a line each.
fn tell_what_opens(name: &str) {
    for adapter in [None, Some(name)] {
        println!("{}", Gpu::open(adapter).map_or_else(|error| error.to_string(), |_| "opens".into()));
        let chosen = Device::choose(BackendChoice::Auto, adapter);
        println!(
            "{}",
            chosen.map_or_else(|error| error.to_string(), |device| format!("{:?}", device.backend()))
        );
    }
}

fn no_driver(name: &str) -> Outcome {
    let mut child = Command::new(env::current_exe()?);
    child.arg(WITHOUT_DRIVERS).env("TRACKWEAVE_ADAPTER", name);
    let none = env::temp_dir().join("no driver at all.json");
    for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        child.env(variable, &none);
    }
    let output = child.output()?;
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout)?;
    let unknown = format!("no adapter is called \"{name}\" (there are none at all)");
    let none = "no GPU found (there are none at all); give --backend cpu, or name an adapter with --adapter";
    assert_eq!(told.lines().collect::<Vec<_>>(), [none, "Cpu", &unknown, &unknown]);
    Ok(())
}

/// How many threads there are after each of four devices, a line each; none where the system does not tell.
fn tell_threads(name: &str) {
    for _ in 0..4 {
        let gpu = Gpu::open(Some(name)).expect("the adapter opens");
        gpu.kernel(&SCALE, &[]).expect("a kernel");
        drop(gpu);
        if let Ok(threads) = fs::read_dir("/proc/self/task") {
            println!("{}", threads.count());
        }
    }
}

/// A software adapter has threads of its own for each open device.
fn closed(name: &str) -> Outcome {
    let output =
        Command::new(env::current_exe()?).arg(ONE_AFTER_ANOTHER).env("TRACKWEAVE_ADAPTER", name).output()?;
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout)?;
    let threads: Vec<&str> = told.lines().collect();
    assert!(threads.windows(2).all(|pair| pair[0] == pair[1]), "threads after each device: {threads:?}");
    Ok(())
}

fn bytes_come_back(name: &str) -> Outcome {
    let gpu = Gpu::open(Some(name))?;
    for n in [0, 1, 3, 4, 7, 1000, 1001] {
        let values: Vec<u8> = (0..n).map(|i| (i * 7 + 1) as u8).collect();
        let buffer = gpu.buffer_with("bytes", &values)?;
        assert_eq!(buffer.bytes(), (n.max(1) as u64).next_multiple_of(4));
        assert_eq!(gpu.download(&buffer)?, values);
    }
    let buffer = gpu.buffer::<u32>("words", 10)?;
    assert_eq!(gpu.download(&buffer)?, [0; 10], "a new buffer is zero");
    gpu.write(&buffer, 3, &[5, 6]);
    let readback = gpu.readback::<u32>("some", 4)?;
    for range in [2..6, 3..3, 2..6] {
        // The first two copies are never taken.
        let mut recording = gpu.record("some");
        recording.read(&buffer, range, &readback);
        recording.submit()?.wait()?;
    }
    assert_eq!(readback.take()?, [0, 5, 6, 0]);
    Ok(())
}

fn dispatches_in_order(name: &str) -> Outcome {
    let gpu = Gpu::open(Some(name))?;
    let buffers = [0, 1].map(|_| gpu.buffer::<f32>("values", 100));
    let [a, b] = buffers.map(Result::unwrap);
    gpu.write(&a, 0, &[1.0; 100]);
    let kernel = gpu.kernel(&SCALE, &[])?;
    let (there, back) = (kernel.bind(&2.0f32, &[&a, &b])?, kernel.bind(&3.0f32, &[&b, &a])?);
    let readback = gpu.readback::<f32>("values", 100)?;
    let before = gpu.counts();
    let mut recording = gpu.record("there and back");
    for _ in 0..3 {
        recording.dispatch(&there, SCALE.groups([100, 1, 1])).dispatch(&back, SCALE.groups([100, 1, 1]));
    }
    recording.read(&a, 0..100, &readback);
    recording.submit()?.wait()?;
    assert_eq!(readback.take()?, [216.0; 100]);
    let after = gpu.counts();
    assert_eq!(after.dispatches - before.dispatches, 6);
    assert_eq!(after.submissions - before.submissions, 1);
    there.set(&10.0f32);
    let mut recording = gpu.record("there");
    recording.dispatch(&there, SCALE.groups([100, 1, 1]));
    recording.submit()?.wait()?;
    assert_eq!(gpu.download(&b)?, [2160.0; 100]);
    Ok(())
}

fn constants(name: &str) -> Outcome {
    let gpu = Gpu::open(Some(name))?;
    let values = gpu.buffer_with("values", &[1.0f32, 2.0])?;
    for offset in [0.0, 4.0, 0.0] {
        let scaled = gpu.buffer::<f32>("scaled", 2)?;
        let kernel = gpu.kernel(&SCALE, &[("OFFSET", offset)])?;
        let bound = kernel.bind(&2.0f32, &[&values, &scaled])?;
        let mut recording = gpu.record("scale");
        recording.dispatch(&bound, [1, 1, 1]);
        recording.submit()?.wait()?;
        assert_eq!(gpu.download(&scaled)?, [2.0 + offset as f32, 4.0 + offset as f32]);
    }
    let error = gpu.kernel(&SCALE, &[("NO_SUCH", 1.0)]).expect_err("a constant that is not there");
    assert!(matches!(error, DeviceError::Shader { kernel: "scale", .. }), "{error:?}");
    Ok(())
}

fn threads_share_a_device(name: &str) -> Outcome {
    let gpu = Gpu::open(Some(name))?;
    let rounds = |thread: u32| -> Result<(), DeviceError> {
        let buffer = gpu.buffer::<u32>("words", 100)?;
        let readback = gpu.readback::<u32>("words", 100)?;
        for round in 0..2000 {
            let sent = vec![1000 * thread + round; 100];
            gpu.write(&buffer, 0, &sent);
            let mut recording = gpu.record("words");
            recording.read(&buffer, 0..100, &readback);
            recording.submit()?.wait()?;
            assert_eq!(readback.take()?, sent);
        }
        Ok(())
    };
    let rounds = &rounds;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || rounds(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread panics"))
    })?;
    Ok(())
}

fn every_byte_is_accounted_for(name: &str) -> Outcome {
    let gpu = Gpu::open(Some(name))?;
    assert_eq!(gpu.resident_bytes(), 0);
    let values = gpu.buffer::<f32>("values", 100)?;
    let scaled = gpu.buffer::<f32>("scaled", 100)?;
    let same = values.clone();
    assert_eq!(gpu.resident(), [("scaled", 400), ("values", 400)]);
    let bound = gpu.kernel(&SCALE, &[])?.bind(&1.0f32, &[&values, &scaled])?;
    let readback = gpu.readback::<u8>("answer", 10)?;
    assert_eq!(gpu.resident_bytes(), 400 + 400 + 4 + 12);
    drop((values, scaled));
    assert_eq!(gpu.resident_bytes(), 816, "what is bound is alive");
    drop(bound);
    assert_eq!(gpu.resident(), [("answer", 12), ("values", 400)]);
    drop((same, readback));
    gpu.record_timed("nothing")?.submit()?.wait()?;
    assert_eq!(gpu.resident(), []);
    Ok(())
}

fn passes_are_timed(name: &str) -> Outcome {
    let gpu = Gpu::open(Some(name))?;
    let n = 100_000;
    let (values, scaled) = (gpu.buffer::<f32>("values", n)?, gpu.buffer::<f32>("scaled", n)?);
    let bound = gpu.kernel(&SCALE, &[])?.bind(&1.0f32, &[&values, &scaled])?;
    let mut recording = gpu.record_timed("timed")?;
    for pass in ["first", "second"] {
        recording.pass(pass).dispatch(&bound, SCALE.groups([n, 1, 1]));
    }
    let times = recording.submit()?.wait()?;
    if !times.is_empty() {
        assert_eq!(times.iter().map(|time| time.name).collect::<Vec<_>>(), ["first", "second"]);
        assert!(times.iter().all(|time| time.ms > 0.0 && time.ms < 10_000.0), "{times:?}");
    }
    let mut recording = gpu.record("not timed");
    recording.pass("first").dispatch(&bound, SCALE.groups([n, 1, 1]));
    assert_eq!(recording.submit()?.wait()?, []);
    Ok(())
}

fn too_large(name: &str) -> Outcome {
    let gpu = Gpu::open(Some(name))?;
    let Err(DeviceError::TooLarge { buffer, bytes, limit, adapter }) = gpu.buffer::<u32>("huge", 1 << 60)
    else {
        return Err("2^62 bytes are had".into());
    };
    assert_eq!((buffer, bytes, adapter), ("huge", 1 << 62, gpu.adapter().to_string()));
    let error = gpu.buffer::<u8>("huge", limit as usize + 1).expect_err("a byte more than the limit");
    assert!(matches!(error, DeviceError::TooLarge { .. }), "{error:?}");
    assert_eq!(gpu.resident_bytes(), 0, "what was refused is not counted");
    assert_eq!(scale(&gpu, &mut gpu.record("scale"), 2.0, 3)?, [0.0, 2.0, 4.0], "the device goes on");
    Ok(())
}

fn does_not_compile(name: &str) -> Outcome {
    let gpu = Gpu::open(Some(name))?;
    let Err(DeviceError::Shader { kernel, adapter, message }) = gpu.kernel(&MISSPELT, &[]) else {
        return Err("a misspelt member compiles".into());
    };
    assert_eq!((kernel, adapter), ("misspelt", gpu.adapter().to_string()));
    assert!(message.contains("faktor"), "{message}");
    let error = gpu.kernel(&ONE_TOO_FEW, &[]).expect_err("a buffer that no one declares");
    assert!(matches!(error, DeviceError::Shader { kernel: "one_too_few", .. }), "{error:?}");
    assert_eq!(scale(&gpu, &mut gpu.record("scale"), 2.0, 3)?, [0.0, 2.0, 4.0], "the device goes on");
    Ok(())
}

fn read_and_written(name: &str) -> Outcome {
    let gpu = Gpu::open(Some(name))?;
    let values = gpu.buffer::<f32>("values", 10)?;
    let bound = gpu.kernel(&SCALE, &[])?.bind(&1.0f32, &[&values, &values])?;
    let mut recording = gpu.record("at once");
    recording.dispatch(&bound, [1, 1, 1]);
    let error = recording.submit().map(|_| ()).expect_err("the same buffer is read and written");
    let DeviceError::Invalid { what, message, .. } = &error else { return Err(format!("{error:?}").into()) };
    assert!(what == "at once" && message.contains("values"), "{error}");
    assert_eq!(scale(&gpu, &mut gpu.record("scale"), 2.0, 3)?, [0.0, 2.0, 4.0], "the device goes on");
    Ok(())
}

fn assert_lost<T>(gpu: &Gpu, last: &str, result: Result<T, DeviceError>) {
    match result.map(|_| ()) {
        Err(DeviceError::Lost { adapter, reason, submission }) => {
            assert_eq!((adapter, reason.as_str()), (gpu.adapter().to_string(), "destroyed"));
            assert_eq!(submission, last);
        }
        other => panic!("{other:?} from a lost device"),
    }
}

fn lost_device(name: &str) -> Outcome {
    let gpu = Gpu::open(Some(name))?;
    let (values, scaled) = (gpu.buffer::<f32>("values", 9)?, gpu.buffer::<f32>("scaled", 9)?);
    let kernel = gpu.kernel(&SCALE, &[])?;
    let bound = kernel.bind(&1.0f32, &[&values, &scaled])?;
    let readback = gpu.readback::<f32>("scaled", 9)?;
    let mut recording = gpu.record("the first");
    recording.dispatch(&bound, [1, 1, 1]).read(&scaled, 0..9, &readback);
    recording.submit()?.wait()?;
    let mut recording = gpu.record("the second");
    recording.dispatch(&bound, [1, 1, 1]);
    gpu.lose();
    let last = "1 (the first)";
    assert_lost(&gpu, last, readback.take());
    assert_lost(&gpu, last, gpu.buffer::<f32>("values", 9));
    assert_lost(&gpu, last, gpu.kernel(&SCALE, &[("OFFSET", 7.0)]));
    assert_lost(&gpu, last, kernel.bind(&1.0f32, &[&values, &scaled]));
    gpu.write(&values, 0, &[1.0]);
    assert_lost(&gpu, "2 (the second)", recording.submit());
    drop((values, scaled, bound, readback));
    assert_eq!(gpu.resident_bytes(), 0);
    Ok(())
}

fn lost_under_work(name: &str) -> Outcome {
    const N: usize = 4_000_000;
    let gpu = Gpu::open(Some(name))?;
    let (values, scaled) = (gpu.buffer::<f32>("values", N)?, gpu.buffer::<f32>("scaled", N)?);
    let bound = gpu.kernel(&SCALE, &[])?.bind(&1.0f32, &[&values, &scaled])?;
    let readback = gpu.readback::<f32>("scaled", 9)?;
    let mut recording = gpu.record("work");
    for _ in 0..20 {
        recording.dispatch(&bound, SCALE.groups([N, 1, 1]));
    }
    recording.read(&scaled, 0..9, &readback);
    let submission = recording.submit()?;
    gpu.lose();
    assert_lost(&gpu, "1 (work)", submission.wait());
    assert_lost(&gpu, "1 (work)", readback.take());
    assert!(Gpu::open(Some(name)).is_ok(), "the adapter opens again");
    Ok(())
}
