//! The arrays of the extraction.

use trackweave::device::Device;
use trackweave::gray::{Conversion, Gray};
use trackweave::picture::GrayImage;
use trackweave::sift::{GpuSift, SiftOptions, SiftRoom};

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
    let layers = of_layers(width, height);
    let all = SiftRoom::default().layer_bytes;
    for (extrema, layer_bytes) in [(1 << 14, all), (64, all), (1 << 14, layers / 5 * 4)] {
        let room = SiftRoom { extrema, layer_bytes };
        let mut sift = GpuSift::with_room(gpu, SiftOptions::default(), (width, height), room)?;
        account.compare()?;
        let made = gpu.buffers();
        let of = |name: &str| made.iter().filter(|found| found.0 == name).map(|found| found.1).sum::<u64>();
        match sift.n_sections() {
            1 => assert_eq!((of("gaussians"), layer_bytes), (layers, all)),
            n => assert!(of("gaussians") <= layer_bytes && layer_bytes < all, "{n} sections, {made:?}"),
        }
        assert!(sift.extract(&empty)?.keypoints.is_empty());
        assert_eq!(gpu.buffers(), made, "a picture without extrema asks for no room");
        let n = sift.extract(&gray)?.keypoints.len();
        assert!(n > 100, "{n} keypoints");
        account.compare()?;
        let grown = gpu.buffers();
        assert_eq!(grown != made, extrema == 64, "room for {extrema} extrema, {n} keypoints");
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
