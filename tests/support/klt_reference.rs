//! The tracker in its clear form: f64, one point at a time, a loop for every sum. The pyramid and the way through it
//! are Bouguet's (2000), the inverse compositional step Baker and Matthews' (2004), the check Kalal, Mikolajczyk and
//! Matas' (2010); `docs/decisions.md` says how windows are read and weighted, when steps are halved and tracks end.

#![allow(dead_code)] // each user takes a part

use trackweave::klt::KltOptions;
use trackweave::message::EndReason;
use trackweave::picture::GrayImage;

/// What may differ between two trackers of this kind.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Pictures between their pixels: a quadratic B-spline, else bilinear.
    pub spline: bool,
    /// Samples weighted by (1 - u^2) (1 - v^2), else equal.
    pub weighted: bool,
    /// A step that turns back is halved.
    pub halving: bool,
    /// Gradients outside of the picture are zero, else those of the border.
    pub zero_outside: bool,
    /// A track ends where its window leaves the picture, else where its point does.
    pub window_inside: bool,
}

impl Form {
    /// The tracker in use.
    pub const IN_USE: Form =
        Form { spline: true, weighted: true, halving: true, zero_outside: true, window_inside: false };
    /// The plain tracker that the design's figures were measured with.
    pub const DESIGN: Form =
        Form { spline: false, weighted: false, halving: false, zero_outside: false, window_inside: true };
}

/// A picture and its gradient in f64.
pub struct Level {
    width: usize,
    height: usize,
    gray: Vec<f64>,
    gradient_x: Vec<f64>,
    gradient_y: Vec<f64>,
}

/// The levels of a picture, the finest first.
pub fn pyramid(image: &GrayImage, levels: u32) -> Vec<Level> {
    let gray = image.data.iter().map(|&v| v as f64).collect();
    let mut pyramid = vec![Level::new(image.width, image.height, gray)];
    while pyramid.len() < levels as usize {
        pyramid.push(pyramid[pyramid.len() - 1].halved());
    }
    pyramid
}

impl Level {
    fn new(width: usize, height: usize, gray: Vec<f64>) -> Level {
        let mut level = Level { width, height, gray, gradient_x: Vec::new(), gradient_y: Vec::new() };
        let pixels = || (0..height as i64).flat_map(|y| (0..width as i64).map(move |x| (x, y)));
        let scharr = |difference: &dyn Fn(i64) -> f64| {
            (3.0 * difference(-1) + 10.0 * difference(0) + 3.0 * difference(1)) / 32.0
        };
        level.gradient_x =
            pixels().map(|(x, y)| scharr(&|i| level.gray(x + 1, y + i) - level.gray(x - 1, y + i))).collect();
        level.gradient_y =
            pixels().map(|(x, y)| scharr(&|i| level.gray(x + i, y + 1) - level.gray(x + i, y - 1))).collect();
        level
    }

    fn halved(&self) -> Level {
        const TAPS: [f64; 5] = [1.0 / 16.0, 4.0 / 16.0, 6.0 / 16.0, 4.0 / 16.0, 1.0 / 16.0];
        let (width, height) = (self.width.div_ceil(2), self.height.div_ceil(2));
        let blurred = |pixel: &dyn Fn(i64) -> f64| (-2..).zip(TAPS).map(|(i, a)| a * pixel(i)).sum::<f64>();
        let half_wide: Vec<f64> = (0..width * self.height)
            .map(|i| blurred(&|column| self.gray(2 * (i % width) as i64 + column, (i / width) as i64)))
            .collect();
        let last = self.height as i64 - 1;
        let at = |column: usize, row: i64| half_wide[row.clamp(0, last) as usize * width + column];
        let gray = (0..width * height).map(|i| blurred(&|row| at(i % width, 2 * (i / width) as i64 + row)));
        let gray = gray.collect();
        Level::new(width, height, gray)
    }

    /// The place of a pixel, or of that of the border nearest to it.
    fn nearest(&self, x: i64, y: i64) -> usize {
        let column = x.clamp(0, self.width as i64 - 1) as usize;
        y.clamp(0, self.height as i64 - 1) as usize * self.width + column
    }

    fn gray(&self, x: i64, y: i64) -> f64 {
        self.gray[self.nearest(x, y)]
    }

    fn gradient(&self, form: Form, x: i64, y: i64) -> [f64; 2] {
        let inside = x >= 0 && y >= 0 && x < self.width as i64 && y < self.height as i64;
        if form.zero_outside && !inside {
            return [0.0; 2];
        }
        [self.gradient_x[self.nearest(x, y)], self.gradient_y[self.nearest(x, y)]]
    }

    /// Whether (x, y) lies `margin` inside of the border pixels' centres. Pixels reach half a pixel beyond theirs.
    fn covers(&self, [x, y]: [f64; 2], margin: f64) -> bool {
        let inside = |v: f64, n: usize| v >= margin && v <= n as f64 - 1.0 - margin;
        inside(x, self.width) && inside(y, self.height)
    }
}

/// The pixels that a reading at `at` takes, the first and their weights.
fn taps(form: Form, at: f64) -> (i64, [f64; 3]) {
    if form.spline {
        // The quadratic B-spline about each of the three nearest pixels.
        let nearest = (at + 0.5).floor();
        let f = at - nearest;
        (nearest as i64 - 1, [0.5 * (0.5 - f).powi(2), 0.75 - f * f, 0.5 * (0.5 + f).powi(2)])
    } else {
        let f = at - at.floor();
        (at.floor() as i64, [1.0 - f, f, 0.0])
    }
}

/// A picture between its pixels.
fn read<const N: usize>(form: Form, [x, y]: [f64; 2], pixel: impl Fn(i64, i64) -> [f64; N]) -> [f64; N] {
    let ((left, across), (top, down)) = (taps(form, x), taps(form, y));
    let mut sum = [0.0; N];
    for (row, b) in (top..).zip(down) {
        for (column, a) in (left..).zip(across) {
            let value = pixel(column, row);
            (0..N).for_each(|i| sum[i] += a * b * value[i]);
        }
    }
    sum
}

/// What becomes of a track.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Where it ends, in level-0 pixels.
    pub position: [f64; 2],
    /// Correlation of the final windows, or after the check how far the way back ends from the start.
    pub measure: f64,
    /// Why it ended, none where it is alive.
    pub reason: Option<EndReason>,
    /// Steps at level 0.
    pub iterations: u32,
    /// A number was so near to its limit that a tracker in f32 may decide otherwise.
    pub close: bool,
}

impl Outcome {
    pub fn distance(&self, [x, y]: [f64; 2]) -> f64 {
        length([self.position[0] - x, self.position[1] - y])
    }
}

/// Tracks a point there and back.
pub fn track(
    form: Form,
    template: &[Level],
    target: &[Level],
    options: &KltOptions,
    start: [f64; 2],
) -> Outcome {
    let there = one_way(form, template, target, options, start);
    if there.reason.is_some() {
        return Outcome { measure: f64::INFINITY, ..there };
    }
    let back = one_way(form, target, template, options, there.position);
    let distance = length([back.position[0] - start[0], back.position[1] - start[1]]);
    let (most, least) = (options.forward_backward_px as f64, options.min_ncc as f64);
    let close = near(distance, most, 1e-3) || near(there.measure, least, 1e-3);
    let reason = match (back.reason, distance > most, there.measure < least) {
        (Some(_), ..) | (None, true, _) => Some(EndReason::ForwardBackward),
        (None, false, true) => Some(EndReason::Residual),
        (None, false, false) => None,
    };
    let measure = if back.reason.is_some() { f64::INFINITY } else { distance };
    Outcome { measure, reason, close: close || there.close || back.close, ..there }
}

/// Tracks a point from one picture to the other.
pub fn one_way(
    form: Form,
    template: &[Level],
    target: &[Level],
    options: &KltOptions,
    start: [f64; 2],
) -> Outcome {
    let margin = if form.window_inside { (options.window_px / 2) as f64 } else { -0.5 };
    let mut track = Outcome { position: start, measure: 0.0, reason: None, iterations: 0, close: false };
    if !template[0].covers(start, margin) {
        return Outcome { reason: Some(EndReason::OutOfFrame), ..track };
    }
    let mut d = [0.0; 2];
    for level in (0..template.len()).rev() {
        d = d.map(|v| 2.0 * v);
        let u = start.map(|v| v / f64::powi(2.0, level as i32));
        let window = Window::new(form, &template[level], options, u);
        track.close |= near(window.min_eigen, options.min_eigen as f64, 1e-3 * options.min_eigen as f64);
        let has_structure = window.min_eigen >= options.min_eigen as f64;
        if !has_structure && level > 0 {
            continue;
        }
        if !has_structure {
            track.reason = Some(EndReason::LowStructure);
            return track;
        }
        let search = window.search(&target[level], options, &mut d);
        track.close |= search.close;
        if level > 0 {
            continue;
        }
        track.position = [start[0] + d[0], start[1] + d[1]];
        track.iterations = search.steps;
        let edges =
            [track.position[0], track.position[1]].into_iter().zip([target[0].width, target[0].height]);
        for (at, size) in edges {
            track.close |= near(at, margin, 1e-3) || near(at, size as f64 - 1.0 - margin, 1e-3);
        }
        track.reason = if !target[0].covers(track.position, margin) {
            Some(EndReason::OutOfFrame)
        } else if !search.settled {
            Some(EndReason::NoConvergence)
        } else {
            None
        };
        track.measure = window.correlation(&template[0], &target[0], d);
    }
    track
}

/// A template's window at one level.
struct Window {
    form: Form,
    /// Where each sample lies.
    places: Vec<[f64; 2]>,
    gray: Vec<f64>,
    /// The gradient times the weight of the sample.
    weighted: Vec<[f64; 2]>,
    /// The sums of weight times gradient times gradient: xx, xy, yy.
    g: [f64; 3],
    /// The smaller eigenvalue of `g` over the sum of the weights.
    min_eigen: f64,
}

/// How a search at one level went.
struct Search {
    steps: u32,
    settled: bool,
    close: bool,
}

impl Window {
    fn new(form: Form, level: &Level, options: &KltOptions, [x, y]: [f64; 2]) -> Window {
        let half = (options.window_px / 2) as i64;
        let weight = |offset: i64| 1.0 - (offset as f64 / (half + 1) as f64).powi(2);
        let (mut places, mut gray, mut weighted) = (Vec::new(), Vec::new(), Vec::new());
        let (mut g, mut total) = ([0.0; 3], 0.0);
        for row in -half..=half {
            for column in -half..=half {
                let place = [x + column as f64, y + row as f64];
                let [gx, gy] = read(form, place, |x, y| level.gradient(form, x, y));
                let w = if form.weighted { weight(column) * weight(row) } else { 1.0 };
                total += w;
                g = [g[0] + w * gx * gx, g[1] + w * gx * gy, g[2] + w * gy * gy];
                weighted.push([w * gx, w * gy]);
                gray.push(read(form, place, |x, y| [level.gray(x, y)])[0]);
                places.push(place);
            }
        }
        let [xx, xy, yy] = g;
        let smaller = (xx + yy - ((xx - yy).powi(2) + 4.0 * xy * xy).sqrt()) / 2.0;
        let min_eigen = smaller / total;
        Window { form, places, gray, weighted, g, min_eigen }
    }

    /// Gauss-Newton steps until one is short.
    fn search(&self, target: &Level, options: &KltOptions, d: &mut [f64; 2]) -> Search {
        let [xx, xy, yy] = self.g;
        let determinant = xx * yy - xy * xy;
        let template = seen(&self.gray, options.photometric);
        let mut search = Search { steps: 0, settled: false, close: false };
        let mut last = [0.0; 2];
        while search.steps < options.max_iterations && !search.settled {
            search.steps += 1;
            let shown = seen(&self.shown(target, *d), options.photometric);
            let scale = match options.photometric {
                2 => length_or_one(&template) / length_or_one(&shown),
                _ => 1.0,
            };
            let mut b = [0.0; 2];
            for i in 0..template.len() {
                let difference = template[i] - scale * shown[i];
                b = [b[0] + difference * self.weighted[i][0], b[1] + difference * self.weighted[i][1]];
            }
            let step = [(yy * b[0] - xy * b[1]) / determinant, (xx * b[1] - xy * b[0]) / determinant];
            let epsilon = options.epsilon_px as f64;
            search.settled = length(step) < epsilon;
            search.close |= near(length(step), epsilon, 2e-4);
            let turn = step[0] * last[0] + step[1] * last[1];
            search.close |= turn != 0.0 && near(turn, 0.0, 1e-3 * length(step) * length(last));
            let share = if self.form.halving && turn < 0.0 { 0.5 } else { 1.0 };
            last = step.map(|v| share * v);
            *d = [d[0] + last[0], d[1] + last[1]];
        }
        search
    }

    fn shown(&self, target: &Level, d: [f64; 2]) -> Vec<f64> {
        let value = |&[x, y]: &[f64; 2]| read(self.form, [x + d[0], y + d[1]], |x, y| [target.gray(x, y)])[0];
        self.places.iter().map(value).collect()
    }

    /// The zero-mean correlation of the samples that both pictures have.
    fn correlation(&self, template: &Level, target: &Level, d: [f64; 2]) -> f64 {
        let shown = self.shown(target, d);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (i, &place) in self.places.iter().enumerate() {
            let there = [place[0] + d[0], place[1] + d[1]];
            if self.form.window_inside || template.covers(place, -0.5) && target.covers(there, -0.5) {
                first.push(self.gray[i]);
                second.push(shown[i]);
            }
        }
        let (first, second) = (seen(&first, 1), seen(&second, 1));
        let product: f64 = first.iter().zip(&second).map(|(a, b)| a * b).sum();
        product / (length_or_one(&first) * length_or_one(&second))
    }
}

/// Values as the photometric mode sees them: without their mean from mode 1 on.
fn seen(values: &[f64], photometric: u32) -> Vec<f64> {
    let mean = if photometric == 0 { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 };
    values.iter().map(|v| v - mean).collect()
}

fn length(v: [f64; 2]) -> f64 {
    v[0].hypot(v[1])
}

fn length_or_one(values: &[f64]) -> f64 {
    let squares: f64 = values.iter().map(|v| v * v).sum();
    if squares > 0.0 { squares.sqrt() } else { 1.0 }
}

fn near(value: f64, limit: f64, tolerance: f64) -> bool {
    (value - limit).abs() <= tolerance
}
