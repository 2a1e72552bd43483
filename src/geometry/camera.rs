//! COLMAP's camera models, by name, number and parameters.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::lens::{Distortion, Lens};

/// The camera as the user gave it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CameraOptions {
    /// COLMAP's model name; none: SIMPLE_RADIAL.
    pub model: Option<String>,
    /// COLMAP's parameters for the exported picture, of the model named; none: unknown intrinsics.
    pub params: Option<Vec<f64>>,
}

/// Why a camera cannot be made from what the user gave.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CameraError {
    /// No such model.
    #[error("unknown camera model `{name}`; known models: {}", model_names())]
    UnknownModel {
        /// What was given.
        name: String,
    },
    /// Too few or too many parameters.
    #[error("camera model {model} takes {expected} parameters ({names}), got {got}")]
    ParamCount {
        /// Name of the model.
        model: &'static str,
        /// Names of its parameters.
        names: &'static str,
        /// How many it takes.
        expected: usize,
        /// How many were given.
        got: usize,
    },
    /// A parameter out of range.
    #[error("camera parameter {name} of {model} is {value}; it must be {rule}")]
    ParamValue {
        /// Name of the model.
        model: &'static str,
        /// Name of the parameter.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
    /// Parameters whose meaning is unknown.
    #[error("camera parameters given without a camera model; name the model as well")]
    ParamsWithoutModel,
}

/// The names of all models, for messages.
fn model_names() -> String {
    CameraModel::ALL.map(CameraModel::name).join(", ")
}

/// A camera model. The numbers are COLMAP's model ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum CameraModel {
    /// f, cx, cy
    SimplePinhole = 0,
    /// fx, fy, cx, cy
    Pinhole = 1,
    /// f, cx, cy, k
    SimpleRadial = 2,
    /// f, cx, cy, k1, k2
    Radial = 3,
    /// fx, fy, cx, cy, k1, k2, p1, p2
    OpenCv = 4,
    /// fx, fy, cx, cy, k1, k2, k3, k4
    OpenCvFisheye = 5,
    /// fx, fy, cx, cy, k1, k2, p1, p2, k3, k4, k5, k6
    FullOpenCv = 6,
    /// fx, fy, cx, cy, omega
    Fov = 7,
    /// f, cx, cy, k
    SimpleRadialFisheye = 8,
    /// f, cx, cy, k1, k2
    RadialFisheye = 9,
    /// fx, fy, cx, cy, k1, k2, p1, p2, k3, k4, sx1, sy1
    ThinPrismFisheye = 10,
}

impl CameraModel {
    /// All models in the order of their ids.
    pub const ALL: [CameraModel; 11] = [
        CameraModel::SimplePinhole,
        CameraModel::Pinhole,
        CameraModel::SimpleRadial,
        CameraModel::Radial,
        CameraModel::OpenCv,
        CameraModel::OpenCvFisheye,
        CameraModel::FullOpenCv,
        CameraModel::Fov,
        CameraModel::SimpleRadialFisheye,
        CameraModel::RadialFisheye,
        CameraModel::ThinPrismFisheye,
    ];

    /// COLMAP's id.
    pub fn id(self) -> i32 {
        self as i32
    }

    /// COLMAP's name.
    pub fn name(self) -> &'static str {
        self.describe().0
    }

    /// The model of a name.
    pub fn from_name(name: &str) -> Result<CameraModel, CameraError> {
        let found = Self::ALL.into_iter().find(|model| model.name() == name);
        found.ok_or_else(|| CameraError::UnknownModel { name: name.to_owned() })
    }

    /// How many parameters it takes.
    pub fn n_params(self) -> usize {
        self.param_names().count()
    }

    /// The names of its parameters in order.
    pub fn param_names(self) -> impl Iterator<Item = &'static str> {
        self.describe().1.split(", ")
    }

    /// Whether one focal length serves x and y.
    fn single_focal(self) -> bool {
        self.describe().1.starts_with("f,")
    }

    fn describe(self) -> (&'static str, &'static str) {
        match self {
            CameraModel::SimplePinhole => ("SIMPLE_PINHOLE", "f, cx, cy"),
            CameraModel::Pinhole => ("PINHOLE", "fx, fy, cx, cy"),
            CameraModel::SimpleRadial => ("SIMPLE_RADIAL", "f, cx, cy, k"),
            CameraModel::Radial => ("RADIAL", "f, cx, cy, k1, k2"),
            CameraModel::OpenCv => ("OPENCV", "fx, fy, cx, cy, k1, k2, p1, p2"),
            CameraModel::OpenCvFisheye => ("OPENCV_FISHEYE", "fx, fy, cx, cy, k1, k2, k3, k4"),
            CameraModel::FullOpenCv => ("FULL_OPENCV", "fx, fy, cx, cy, k1, k2, p1, p2, k3, k4, k5, k6"),
            CameraModel::Fov => ("FOV", "fx, fy, cx, cy, omega"),
            CameraModel::SimpleRadialFisheye => ("SIMPLE_RADIAL_FISHEYE", "f, cx, cy, k"),
            CameraModel::RadialFisheye => ("RADIAL_FISHEYE", "f, cx, cy, k1, k2"),
            CameraModel::ThinPrismFisheye => {
                ("THIN_PRISM_FISHEYE", "fx, fy, cx, cy, k1, k2, p1, p2, k3, k4, sx1, sy1")
            }
        }
    }
}

/// A camera of the exported picture. Image positions are pixels (centre of the first at 0.5); camera positions are
/// where the ray meets the plane z = 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Camera {
    /// The model.
    pub model: CameraModel,
    /// Exported picture size in pixels.
    pub width: u32,
    /// See `width`.
    pub height: u32,
    /// Parameters in COLMAP's order, as many as the model takes.
    pub params: Vec<f64>,
    /// Whether the parameters are known rather than guessed.
    pub has_prior_focal_length: bool,
}

impl Camera {
    /// The camera of the options; without parameters the guess COLMAP makes: f = 1.2 max(width, height), the principal
    /// point in the middle, no distortion (FOV: omega = 0.01).
    pub fn from_options(options: &CameraOptions, width: u32, height: u32) -> Result<Camera, CameraError> {
        let model = match &options.model {
            Some(name) => CameraModel::from_name(name)?,
            None if options.params.is_some() => return Err(CameraError::ParamsWithoutModel),
            None => CameraModel::SimpleRadial,
        };
        let params = match &options.params {
            Some(params) => {
                check_params(model, params)?;
                params.clone()
            }
            None => guessed_params(model, width, height),
        };
        Ok(Camera { model, width, height, params, has_prior_focal_length: options.params.is_some() })
    }

    /// Focal lengths in x and y, in pixels.
    pub fn focal(&self) -> [f64; 2] {
        if self.model.single_focal() { [self.params[0]; 2] } else { [self.params[0], self.params[1]] }
    }

    /// Mean of the two focal lengths, in pixels.
    pub fn mean_focal(&self) -> f64 {
        let [fx, fy] = self.focal();
        0.5 * (fx + fy)
    }

    /// Principal point in pixels.
    pub fn principal_point(&self) -> [f64; 2] {
        let at = if self.model.single_focal() { 1 } else { 2 };
        [self.params[at], self.params[at + 1]]
    }

    /// Pixel of a camera position (projection with distortion); none where the lens model has no value.
    pub fn img_from_cam(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        let [u, v] = self.lens().distort([x, y])?;
        Some(self.pinhole_img_from_cam([u, v]))
    }

    /// Camera position of a pixel (distortion removed); none where the lens model cannot be inverted: beyond the turning
    /// point of its polynomial, or 90 degrees and more off the axis.
    pub fn cam_from_img(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        let ([fx, fy], [cx, cy]) = (self.focal(), self.principal_point());
        self.lens().undistort([(x - cx) / fx, (y - cy) / fy])
    }

    /// Pixel of a camera position in the camera without distortion.
    pub fn pinhole_img_from_cam(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let ([fx, fy], [cx, cy]) = (self.focal(), self.principal_point());
        [fx * x + cx, fy * y + cy]
    }

    fn lens(&self) -> Lens {
        let extra = &self.params[if self.model.single_focal() { 3 } else { 4 }..];
        match (self.model, extra) {
            (CameraModel::Fov, &[omega]) => Lens::Fov { omega },
            (CameraModel::SimpleRadial, &[k]) => Lens::Perspective(Distortion::radial(&[k])),
            (CameraModel::Radial, &[k1, k2]) => Lens::Perspective(Distortion::radial(&[k1, k2])),
            (CameraModel::OpenCv, &[k1, k2, p1, p2]) => {
                Lens::Perspective(Distortion { tangential: [p1, p2], ..Distortion::radial(&[k1, k2]) })
            }
            (CameraModel::FullOpenCv, &[k1, k2, p1, p2, k3, k4, k5, k6]) => Lens::Perspective(Distortion {
                tangential: [p1, p2],
                denominator: [k4, k5, k6, 0.0],
                ..Distortion::radial(&[k1, k2, k3])
            }),
            (CameraModel::SimpleRadialFisheye, &[k]) => Lens::Fisheye(Distortion::radial(&[k])),
            (CameraModel::RadialFisheye, &[k1, k2]) => Lens::Fisheye(Distortion::radial(&[k1, k2])),
            (CameraModel::OpenCvFisheye, &[k1, k2, k3, k4]) => {
                Lens::Fisheye(Distortion::radial(&[k1, k2, k3, k4]))
            }
            (CameraModel::ThinPrismFisheye, &[k1, k2, p1, p2, k3, k4, sx1, sy1]) => {
                Lens::Fisheye(Distortion {
                    tangential: [p1, p2],
                    prism: [sx1, sy1],
                    ..Distortion::radial(&[k1, k2, k3, k4])
                })
            }
            _ => Lens::Perspective(Distortion::default()),
        }
    }
}

fn check_params(model: CameraModel, params: &[f64]) -> Result<(), CameraError> {
    let (name, names) = model.describe();
    if params.len() != model.n_params() {
        let (expected, got) = (model.n_params(), params.len());
        return Err(CameraError::ParamCount { model: name, names, expected, got });
    }
    for (param, &value) in model.param_names().zip(params) {
        let error = |rule| Err(CameraError::ParamValue { model: name, name: param, value, rule });
        if !value.is_finite() {
            return error("a finite number");
        }
        if param.starts_with('f') && value <= 0.0 {
            return error("above 0 pixels");
        }
        if param == "omega" && !(0.0..std::f64::consts::PI).contains(&value) {
            return error("in [0, pi) radians");
        }
    }
    Ok(())
}

fn guessed_params(model: CameraModel, width: u32, height: u32) -> Vec<f64> {
    let guess = |param| match param {
        "f" | "fx" | "fy" => 1.2 * width.max(height) as f64,
        "cx" => width as f64 / 2.0,
        "cy" => height as f64 / 2.0,
        "omega" => 0.01,
        _ => 0.0,
    };
    model.param_names().map(guess).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (&'static str, Vec<f64>, [[f64; 2]; 2], [[f64; 2]; 2]);

    const CAM_POINTS: [[f64; 2]; 2] = [[0.3, -0.2], [-0.7, 0.4]];
    const IMG_POINTS: [[f64; 2]; 2] = [[0.0, 0.0], [1000.5, 200.25]];

    /// Model, parameters, img_from_cam of `CAM_POINTS` and cam_from_img of `IMG_POINTS` as pycolmap 4.2.1 gives them.
    fn pycolmap_rows() -> Vec<Row> {
        vec![
            (
                "SIMPLE_PINHOLE",
                vec![800.0, 640.0, 360.0],
                [[880.0, 200.0], [80.0, 680.0]],
                [[-0.8, -0.45], [0.450625, -0.1996875]],
            ),
            (
                "PINHOLE",
                vec![800.0, 810.0, 640.0, 360.0],
                [[880.0, 198.0], [80.0, 684.0]],
                [[-0.8, -0.4444444444444444], [0.450625, -0.19722222222222222]],
            ),
            (
                "SIMPLE_RADIAL",
                vec![800.0, 640.0, 360.0, -0.1],
                [[876.88, 202.07999999999998], [116.39999999999998, 659.2]],
                [[-0.8940868908847215, -0.5029238761226559], [0.4624576131703901, -0.2049309395394447]],
            ),
            (
                "RADIAL",
                vec![800.0, 640.0, 360.0, -0.2, 0.05],
                [[873.9628, 204.0248], [140.97000000000003, 645.1600000000001]],
                [[-0.9635704846682853, -0.5420083976259105], [0.4744604391861685, -0.21024980626904413]],
            ),
            (
                "OPENCV",
                vec![800.0, 810.0, 641.0, 359.0, -0.2, 0.05, 0.001, -0.002],
                [[874.3707999999999, 201.43961000000002], [138.914, 649.4174]],
                [[-0.9568898496544367, -0.532326843247461], [0.47477816929062866, -0.20710300215893118]],
            ),
            (
                "OPENCV_FISHEYE",
                vec![500.0, 505.0, 640.0, 360.0, 0.02, -0.01, 0.003, -0.001],
                [[784.289083278447, 262.8453505925123], [343.2764384063975, 531.2518841197364]],
                [[-7.62183781501373, -4.244835416777448], [0.9064709213530557, -0.3977114559979969]],
            ),
            (
                "FULL_OPENCV",
                vec![800.0, 810.0, 641.0, 359.0, -0.2, 0.05, 0.001, -0.002, 0.01, 0.02, -0.01, 0.005],
                [[873.8061180965799, 201.8207702848085], [142.40489280223142, 647.3976691644233]],
                [[-0.9541892566406639, -0.5308073783855333], [0.47720745273009446, -0.20816305248556483]],
            ),
            (
                "FOV",
                vec![600.0, 605.0, 640.0, 360.0, 0.9],
                [[825.9308525848456, 235.01314909574262], [256.96364566874246, 580.7018994003913]],
                [[-1.772831755549603, -0.9889763925586628], [0.6353893600091727, -0.27923600214064126]],
            ),
            (
                "SIMPLE_RADIAL_FISHEYE",
                vec![500.0, 640.0, 360.0, 0.02],
                [[784.3090152890773, 263.79398980728183], [342.7250705416461, 529.8713882619165]],
                [[-5.451826121904034, -3.0666521935710187], [0.9029184921549211, -0.40011436649583537]],
            ),
            (
                "RADIAL_FISHEYE",
                vec![500.0, 640.0, 360.0, 0.02, -0.01],
                [[784.2883712538276, 263.80775249744823], [343.3494414570949, 529.51460488166]],
                [[-8.99016604942047, -5.056968402799013], [0.9080271981027791, -0.40237821053236883]],
            ),
            (
                "THIN_PRISM_FISHEYE",
                vec![500.0, 505.0, 640.0, 360.0, 0.02, -0.01, 0.001, -0.002, 0.003, -0.001, 0.0005, -0.0007],
                [[783.9781978057352, 263.01234905703166], [342.0386786816392, 531.8367123090009]],
                [[-7.091064680486859, -3.9624578757265003], [0.9130972221637141, -0.40034038593280397]],
            ),
        ]
    }

    fn camera(model: &str, params: Vec<f64>) -> Camera {
        let options = CameraOptions { model: Some(model.to_owned()), params: Some(params) };
        Camera::from_options(&options, 1280, 720).unwrap()
    }

    fn near([ax, ay]: [f64; 2], [bx, by]: [f64; 2], tolerance: f64) -> bool {
        (ax - bx).abs() <= tolerance && (ay - by).abs() <= tolerance
    }

    #[test]
    fn models_agree_with_pycolmap() {
        let rows = pycolmap_rows();
        assert_eq!(rows.len(), CameraModel::ALL.len());
        for (id, (model, params, images, cams)) in rows.into_iter().enumerate() {
            let camera = camera(model, params);
            assert_eq!(camera.model.id(), id as i32);
            for i in 0..2 {
                let image = camera.img_from_cam(CAM_POINTS[i]).unwrap();
                assert!(near(image, images[i], 1e-9), "{model} {image:?} {:?}", images[i]);
                let cam = camera.cam_from_img(IMG_POINTS[i]).unwrap();
                assert!(near(cam, cams[i], 1e-7), "{model} {cam:?} {:?}", cams[i]);
            }
        }
    }

    #[test]
    fn undistortion_inverts_distortion_over_the_picture() {
        for (model, params, ..) in pycolmap_rows() {
            let camera = camera(model, params);
            for (i, j) in (0..=8).flat_map(|i| (0..=8).map(move |j| (i, j))) {
                let image = [160.0 * i as f64, 90.0 * j as f64];
                let cam = camera.cam_from_img(image).unwrap();
                let back = camera.img_from_cam(cam).unwrap();
                assert!(near(back, image, 1e-6), "{model} {image:?} {back:?}");
            }
            let centre = camera.principal_point();
            assert!(near(camera.cam_from_img(centre).unwrap(), [0.0, 0.0], 1e-12));
        }
    }

    #[test]
    fn a_pixel_no_ray_reaches_has_no_position() {
        // r (1 - 0.3 r^2) never exceeds 0.703, at r = 1.054.
        let barrel = camera("SIMPLE_RADIAL", vec![800.0, 640.0, 360.0, -0.3]);
        assert!(barrel.cam_from_img([640.0 + 0.70 * 800.0, 360.0]).unwrap()[0] < 1.054);
        assert_eq!(barrel.cam_from_img([640.0 + 0.71 * 800.0, 360.0]), None);
        let fisheye = camera("SIMPLE_RADIAL_FISHEYE", vec![400.0, 640.0, 360.0, 0.0]);
        assert!(fisheye.cam_from_img([640.0 + 1.57 * 400.0, 360.0]).is_some());
        assert_eq!(fisheye.cam_from_img([640.0 + 1.58 * 400.0, 360.0]), None);
        assert_eq!(barrel.cam_from_img([f64::NAN, 0.0]), None);
    }

    #[test]
    fn guessed_cameras() {
        let camera = Camera::from_options(&CameraOptions::default(), 480, 848).unwrap();
        assert_eq!(camera.model, CameraModel::SimpleRadial);
        assert_eq!(camera.params, [1.2 * 848.0, 240.0, 424.0, 0.0]);
        assert!(!camera.has_prior_focal_length);
        let options = CameraOptions { model: Some("OPENCV".to_owned()), params: None };
        let camera = Camera::from_options(&options, 100, 50).unwrap();
        assert_eq!(camera.params, [120.0, 120.0, 50.0, 25.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!((camera.mean_focal(), camera.principal_point()), (120.0, [50.0, 25.0]));
    }

    #[test]
    fn errors_say_what_to_do() {
        let message = |model: Option<&str>, params: &[f64]| {
            let options = CameraOptions { model: model.map(str::to_owned), params: Some(params.to_vec()) };
            Camera::from_options(&options, 640, 480).unwrap_err().to_string()
        };
        let unknown = message(Some("opencv"), &[]);
        assert!(unknown.starts_with("unknown camera model `opencv`; known models: SIMPLE_PINHOLE, PINHOLE,"));
        assert!(unknown.ends_with("RADIAL_FISHEYE, THIN_PRISM_FISHEYE"));
        assert_eq!(
            message(Some("PINHOLE"), &[1.0, 2.0]),
            "camera model PINHOLE takes 4 parameters (fx, fy, cx, cy), got 2"
        );
        assert_eq!(
            message(None, &[1.0, 2.0]),
            "camera parameters given without a camera model; name the model as well"
        );
        assert_eq!(
            message(Some("SIMPLE_PINHOLE"), &[-3.0, 2.0, 2.0]),
            "camera parameter f of SIMPLE_PINHOLE is -3; it must be above 0 pixels"
        );
        assert!(message(Some("SIMPLE_PINHOLE"), &[3.0, f64::NAN, 2.0]).ends_with("a finite number"));
    }
}
