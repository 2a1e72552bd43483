//! Which displayed frames are sampled: exact integer arithmetic on presentation times.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const NS_PER_S: u128 = 1_000_000_000;
/// Beyond this a number cannot be a rate of frames; it keeps products far from overflow.
const LARGEST_TERM: u64 = 1_000_000_000;

/// A positive rate as a fraction; read from a number (its decimal digits count exactly) or a string like `30000/1001`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fps {
    /// Frames in `denominator` seconds.
    pub numerator: u64,
    /// See `numerator`.
    pub denominator: u64,
}

impl Fps {
    /// A rate of whole frames a second; 0 is not one.
    pub const fn whole(numerator: u64) -> Fps {
        Fps { numerator, denominator: 1 }
    }

    /// Reads `4`, `29.97` or `30000/1001`.
    pub fn parse(text: &str) -> Option<Fps> {
        let (numerator, denominator) = match text.trim().split_once('/') {
            Some((n, d)) => (n.trim().parse().ok()?, d.trim().parse().ok()?),
            None => decimal(text.trim())?,
        };
        let sane = (1..=LARGEST_TERM).contains(&numerator) && (1..=LARGEST_TERM).contains(&denominator);
        sane.then_some(Fps { numerator, denominator })
    }

    /// Time of tick `k` in whole nanoseconds, rounded down as containers do.
    pub fn tick_ns(self, k: u64) -> u64 {
        (k as u128 * NS_PER_S * self.denominator as u128 / self.numerator as u128) as u64
    }

    /// The first tick after `pts_ns`.
    fn first_tick_after(self, pts_ns: u64) -> u64 {
        ((pts_ns as u128 + 1) * self.numerator as u128).div_ceil(NS_PER_S * self.denominator as u128) as u64
    }
}

fn decimal(text: &str) -> Option<(u64, u64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    let (mut numerator, mut denominator) = (digits.parse::<u64>().ok()?, 10u64.pow(fraction.len() as u32));
    while denominator > 1 && numerator % 10 == 0 {
        (numerator, denominator) = (numerator / 10, denominator / 10);
    }
    Some((numerator, denominator))
}

/// How many of the displayed frames are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleRate {
    /// Every displayed frame.
    All,
    /// For tick k / f the first frame at or after it, none twice.
    Fps(Fps),
}

impl SampleRate {
    /// Reads `all` or a rate.
    pub fn parse(text: &str) -> Option<SampleRate> {
        if text.trim() == "all" { Some(SampleRate::All) } else { Fps::parse(text).map(SampleRate::Fps) }
    }
}

/// A number or a string of a configuration file, as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Whole(u64),
    Number(f64),
    Text(String),
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let value = NumberOrText::deserialize(deserializer)
        .map_err(|_| de::Error::custom("a rate is a positive number or a string"))?;
    Ok(match value {
        NumberOrText::Whole(n) => n.to_string(),
        NumberOrText::Number(n) => n.to_string(),
        NumberOrText::Text(text) => text,
    })
}

impl<'de> Deserialize<'de> for Fps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = text(deserializer)?;
        Fps::parse(&text).ok_or_else(|| {
            de::Error::custom(format!(
                "{text:?} is no rate: give a positive number or a fraction like 30000/1001"
            ))
        })
    }
}

impl<'de> Deserialize<'de> for SampleRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = text(deserializer)?;
        SampleRate::parse(&text).ok_or_else(|| {
            de::Error::custom(format!(
                "{text:?} is no rate: give a positive number, a fraction like 30000/1001 or \"all\""
            ))
        })
    }
}

/// As it is read: a whole number, or a fraction as a string.
impl Serialize for Fps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.denominator {
            1 => serializer.serialize_u64(self.numerator),
            denominator => serializer.collect_str(&format_args!("{}/{denominator}", self.numerator)),
        }
    }
}

impl Serialize for SampleRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SampleRate::All => serializer.serialize_str("all"),
            SampleRate::Fps(fps) => fps.serialize(serializer),
        }
    }
}

/// Picks frames by time, asked once a displayed frame in their order.
#[derive(Clone, Debug)]
pub struct Sampler {
    rate: SampleRate,
    next_tick: u64,
}

impl Sampler {
    /// A sampler before the first frame.
    pub fn new(rate: SampleRate) -> Sampler {
        Sampler { rate, next_tick: 0 }
    }

    /// Whether the frame at `pts_ns` is the first at or after a tick that no frame answered yet.
    pub fn wants(&mut self, pts_ns: u64) -> bool {
        let SampleRate::Fps(fps) = self.rate else { return true };
        let wanted = pts_ns >= fps.tick_ns(self.next_tick);
        if wanted {
            self.next_tick = fps.first_tick_after(pts_ns);
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(rate: &str, times: &[u64]) -> Vec<usize> {
        let mut sampler = Sampler::new(SampleRate::parse(rate).unwrap());
        (0..times.len()).filter(|&i| sampler.wants(times[i])).collect()
    }

    /// The definition, word by word: for every tick the first frame at or after it, none twice.
    fn by_definition(fps: Fps, times: &[u64]) -> Vec<usize> {
        let mut taken = Vec::new();
        for tick in (0..).map(|k| fps.tick_ns(k)).take_while(|&t| t <= *times.last().unwrap()) {
            if let Some(i) = times.iter().position(|&t| t >= tick)
                && !taken.contains(&i)
            {
                taken.push(i);
            }
        }
        taken
    }

    fn constant(n: u64, numerator: u64, denominator: u64) -> Vec<u64> {
        (0..n).map(|i| i * 1_000_000_000 * denominator / numerator).collect()
    }

    #[test]
    fn rates_are_read_exactly() {
        assert_eq!(Fps::parse("29.97"), Some(Fps { numerator: 2997, denominator: 100 }));
        assert_eq!(Fps::parse("2.50"), Some(Fps { numerator: 25, denominator: 10 }));
        assert_eq!(Fps::parse("30000/1001"), Some(Fps { numerator: 30000, denominator: 1001 }));
        for bad in ["0", "-4", "4/0", "0/3", "1e3", "", "nan", "a/b", "99999999999", "."] {
            assert_eq!(Fps::parse(bad), None, "{bad}");
        }
        #[derive(Deserialize)]
        struct Options {
            rate: SampleRate,
        }
        let read = |text: &str| toml::from_str::<Options>(text).map(|o| o.rate);
        assert_eq!(read("rate = 4").unwrap(), SampleRate::Fps(Fps::whole(4)));
        assert_eq!(read("rate = 2.5").unwrap(), SampleRate::parse("2.5").unwrap());
        assert_eq!(read("rate = \"all\"").unwrap(), SampleRate::All);
        assert!(read("rate = -1").is_err() && read("rate = 0.0").is_err() && read("rate = true").is_err());
    }

    #[test]
    fn the_own_rate_takes_every_frame() {
        for (n, d, text) in
            [(30, 1, "30"), (30000, 1001, "30000/1001"), (24000, 1001, "24000/1001"), (7, 3, "7/3")]
        {
            let times = constant(5000, n, d);
            assert_eq!(sampled(text, &times).len(), 5000, "{text}");
        }
    }

    #[test]
    fn no_tick_drifts_in_a_day() {
        // 25 frames a second, sampled at 4: of 100 frames (4 s) always the same 16.
        let times = constant(25 * 86_400, 25, 1);
        let taken = sampled("4", &times);
        assert_eq!(taken.len(), 4 * 86_400);
        assert_eq!(taken[..5], [0, 7, 13, 19, 25]);
        assert!((0..taken.len() - 4).all(|i| taken[i + 4] == taken[i] + 25));
    }

    #[test]
    fn a_variable_rate_follows_the_definition() {
        let mut rng = crate::numerics::SplitMix64::new(7, 0);
        for rate in ["4", "2.5", "29.97", "1", "30000/1001"] {
            let mut now = 0;
            let times: Vec<u64> = (0..300)
                .map(|i| {
                    now += if i == 0 { 0 } else { rng.below(120_000_000) as u64 };
                    now
                })
                .collect();
            assert_eq!(sampled(rate, &times), by_definition(Fps::parse(rate).unwrap(), &times), "{rate}");
        }
    }

    #[test]
    fn equal_times_are_kept_by_all_and_taken_once_by_a_rate() {
        let times = [0, 0, 250_000_000, 250_000_000, 250_000_000, 3_000_000_000];
        assert_eq!(sampled("all", &times), [0, 1, 2, 3, 4, 5]);
        assert_eq!(sampled("4", &times), [0, 2, 5]);
    }
}
