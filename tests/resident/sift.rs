//! The arrays of the extraction.

use trackweave::device::Device;
use trackweave::gray::{Conversion, Gray};
use trackweave::picture::GrayImage;
use trackweave::sift::{GpuSift, SiftOptions};

use crate::klt_scene::scene;
use crate::tracker::picture_of;
use crate::{Account, Outcome};

/// Bytes of the Gaussian layers with the default options: six of each octave, the first twice as wide and high as the
/// picture, down to twelve pixels.
fn of_layers(width: usize, height: usize) -> u64 {
    let octaves =
        std::iter::successors(Some([2 * width, 2 * height]), |size| Some(size.map(|v| v.div_ceil(2))));
    let n_octaves = SiftOptions::default().octaves as usize;
    let large = octaves.take_while(|[w, h]| *w.min(h) >= 12).take(n_octaves);
    large.map(|[w, h]| 6 * 4 * (w * h) as u64).sum()
}

/// The account after the extraction is made, after pictures and after it is dropped is what is allocated and counted. Another
/// picture of the size takes nothing; room that grows is let go before it is counted again.
pub fn extractions(account: &Account, width: usize, height: usize) -> Outcome {
    let gpu = &account.gpu;
    let device = Device::Gpu(gpu.clone());
    let upload = |image: &GrayImage| -> Result<Gray, trackweave::device::DeviceError> {
        let picture = picture_of(image);
        Conversion::new(&device, &picture, (width as u32, height as u32))?.run(&picture)
    };
    let first = scene(width, height);
    let (gray, empty) = (upload(&first)?, upload(&GrayImage::new(width, height))?);
    let (Gray::Device(gray), Gray::Device(empty)) = (gray, empty) else { panic!("they went up") };
    account.compare()?;
    let before = gpu.buffers();
    for room in [1 << 14, 64] {
        let mut sift = GpuSift::with_room(gpu, SiftOptions::default(), (width, height), room)?;
        account.compare()?;
        let made = gpu.buffers();
        let of = |name: &str| made.iter().filter(|found| found.0 == name).map(|found| found.1).sum::<u64>();
        assert_eq!(of("gaussians"), of_layers(width, height));
        assert!(sift.extract(&empty)?.keypoints.is_empty());
        assert_eq!(gpu.buffers(), made, "a picture without extrema asks for no room");
        let n = sift.extract(&gray)?.keypoints.len();
        assert!(n > 100, "{n} keypoints");
        account.compare()?;
        let grown = gpu.buffers();
        assert_eq!(grown != made, room == 64, "room for {room} extrema, {n} keypoints");
        assert_eq!(grown.len(), made.len(), "what was too small is gone");
        for picture in [&gray, &empty, &gray] {
            sift.extract(picture)?;
            assert_eq!(gpu.buffers(), grown);
        }
        account.compare()?;
        drop(sift);
        account.compare()?;
        assert_eq!(gpu.buffers(), before);
    }
    drop((gray, empty));
    account.compare()?;
    assert_eq!(gpu.resident(), []);
    Ok(())
}
