//! High dynamic range (HLG, PQ) to 8-bit sRGB: ITU-R BT.2100 curves, the diffuse white of BT.2408 (203 cd/m2) near the
//! top, highlights rolled off, BT.2020 primaries to BT.709.

use rayon::prelude::*;

/// The transfer function of the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Perceptual quantiser, absolute (SMPTE ST 2084).
    Pq,
    /// Hybrid log-gamma, relative to the display (ARIB STD-B67).
    Hlg,
}

/// Luminance of diffuse white in cd/m2 (BT.2408).
const DIFFUSE_WHITE: f32 = 203.0;
/// Luminance the roll-off ends at, in cd/m2: the peak of a usual grade.
const PEAK: f32 = 1000.0;
/// Up to here (1 = diffuse white) light keeps its value.
const KNEE: f32 = 0.5;
/// Linear BT.709 from linear BT.2020 (BT.2087).
const BT709_FROM_BT2020: [[f32; 3]; 3] =
    [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]];
const SIGNAL_STEPS: usize = 4096;
const LIGHT_STEPS: usize = 16384;

/// Tables of one transfer function.
pub struct ToneMap {
    /// Light of a signal value, relative to an arbitrary white.
    light: Vec<f32>,
    /// What brings the brightest channel's light to the display, by its signal: one factor for all three keeps the hue.
    gain: Vec<f32>,
    /// 8-bit sRGB of linear light in [0, 1].
    srgb: Vec<u8>,
}

impl ToneMap {
    /// Builds the tables.
    pub fn new(transfer: Transfer) -> ToneMap {
        let signal = |i: usize| i as f32 / (SIGNAL_STEPS - 1) as f32;
        let light: Vec<f32> = (0..SIGNAL_STEPS).map(|i| light(transfer, signal(i))).collect();
        let gain = light.iter().map(|&l| if l > 0.0 { rolled_off(displayed(transfer, l)) / l } else { 0.0 });
        let gain = gain.collect();
        let srgb = (0..LIGHT_STEPS).map(|i| srgb(i as f32 / (LIGHT_STEPS - 1) as f32)).collect();
        ToneMap { light, gain, srgb }
    }

    /// Tightly packed RGB of `size` = (width, height) pixels of 16-bit (native order) A, R, G, B signal, `stride` bytes
    /// a row.
    pub fn rgb_from_argb64(&self, samples: &[u8], stride: usize, size: (usize, usize)) -> Vec<u8> {
        let (width, height) = size;
        let mut rgb = vec![0; 3 * width * height];
        rgb.par_chunks_exact_mut(3 * width).zip(samples.par_chunks(stride)).for_each(|(out, row)| {
            for (pixel, argb) in out.chunks_exact_mut(3).zip(row.chunks_exact(8)) {
                let signal = |i: usize| u16::from_ne_bytes([argb[2 * i], argb[2 * i + 1]]) >> 4;
                pixel.copy_from_slice(&self.pixel([signal(1), signal(2), signal(3)]));
            }
        });
        rgb
    }

    fn pixel(&self, signal: [u16; 3]) -> [u8; 3] {
        let brightest = signal[0].max(signal[1]).max(signal[2]);
        let gain = self.gain[brightest as usize];
        let light = signal.map(|s| self.light[s as usize] * gain);
        BT709_FROM_BT2020.map(|row| {
            let linear = row[0] * light[0] + row[1] * light[1] + row[2] * light[2];
            self.srgb[(linear.clamp(0.0, 1.0) * (LIGHT_STEPS - 1) as f32 + 0.5) as usize]
        })
    }
}

/// Light of a signal in [0, 1]: cd/m2 / 10000 for PQ, of the scene in [0, 1] for HLG (BT.2100 tables 4 and 5).
fn light(transfer: Transfer, signal: f32) -> f32 {
    match transfer {
        Transfer::Pq => {
            let (m1, m2) = (2610.0 / 16384.0, 2523.0 / 4096.0 * 128.0);
            let (c1, c2, c3) = (3424.0 / 4096.0, 2413.0 / 4096.0 * 32.0, 2392.0 / 4096.0 * 32.0);
            let power = libm::powf(signal, 1.0 / m2);
            libm::powf((power - c1).max(0.0) / (c2 - c3 * power), 1.0 / m1)
        }
        Transfer::Hlg if signal <= 0.5 => signal * signal / 3.0,
        Transfer::Hlg => {
            let (a, b, c) = (0.178_832_77, 0.284_668_92, 0.559_910_7);
            (libm::expf((signal - c) / a) + b) / 12.0
        }
    }
}

/// Light on the display, 1 = diffuse white. HLG's system gamma 1.2 takes the brightest channel for the luminance.
fn displayed(transfer: Transfer, light: f32) -> f32 {
    match transfer {
        Transfer::Pq => light * 10_000.0 / DIFFUSE_WHITE,
        Transfer::Hlg => libm::powf(light, 1.2) * PEAK / DIFFUSE_WHITE,
    }
}

/// [0, PEAK] to [0, 1]: the identity up to the knee, then extended Reinhard with the same slope at the knee.
fn rolled_off(light: f32) -> f32 {
    if light <= KNEE {
        return light;
    }
    let over = (light - KNEE) / (1.0 - KNEE);
    let white = (PEAK / DIFFUSE_WHITE - KNEE) / (1.0 - KNEE);
    (KNEE + (1.0 - KNEE) * over * (1.0 + over / (white * white)) / (1.0 + over)).min(1.0)
}

fn srgb(linear: f32) -> u8 {
    let encoded =
        if linear <= 0.003_130_8 { 12.92 * linear } else { 1.055 * libm::powf(linear, 1.0 / 2.4) - 0.055 };
    (encoded * 255.0 + 0.5) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gray(transfer: Transfer, signal: f32) -> u8 {
        let code = (signal * 4095.0) as u16;
        let [r, g, b] = ToneMap::new(transfer).pixel([code; 3]);
        assert!(r.abs_diff(g) <= 1 && g.abs_diff(b) <= 1, "a gray got a hue: {r} {g} {b}");
        g
    }

    #[test]
    fn anchors_of_bt2408() {
        // Diffuse white: PQ 58 %, HLG 75 %; an 18 % gray card: PQ 38 %, HLG 38 % (BT.2408 table 1).
        for (transfer, white, card) in [(Transfer::Pq, 0.58, 0.38), (Transfer::Hlg, 0.75, 0.38)] {
            assert_eq!(gray(transfer, 0.0), 0, "{transfer:?}");
            let (white, card) = (gray(transfer, white), gray(transfer, card));
            assert!((215..=235).contains(&white), "{transfer:?}: diffuse white is {white}");
            assert!((100..=130).contains(&card), "{transfer:?}: the gray card is {card}");
            assert!(gray(transfer, 1.0) >= 254, "{transfer:?}: the peak is not white");
        }
    }

    #[test]
    fn brighter_stays_brighter() {
        for transfer in [Transfer::Pq, Transfer::Hlg] {
            let tone_map = ToneMap::new(transfer);
            let grays: Vec<u8> = (0..4096).map(|code| tone_map.pixel([code; 3])[1]).collect();
            assert!(grays.windows(2).all(|pair| pair[0] <= pair[1]), "{transfer:?}");
        }
    }
}
