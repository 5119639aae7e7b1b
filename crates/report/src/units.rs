//! Figures as text: three significant digits, with a scale chosen for each value.

use measure::Unit;

/// A value with its unit: `112 ns`, `5.61 µs`, `11.2 GB/s`, `48.2 k/s`. A value that is not a number prints as a
/// dash.
pub fn value(value: f64, unit: &Unit) -> String {
    match unit {
        Unit::Nanos => scaled(value, &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")]),
        Unit::BytesPerSecond => {
            scaled(value, &[(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")])
        }
        Unit::OpsPerSecond => scaled(value, &[(1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")]),
        Unit::Other(unit) => scaled(value, &[(1.0, &text(unit))]),
    }
}

/// The unit's own name: `ns`, `bytes/s`.
pub fn name(unit: &Unit) -> String {
    match unit {
        Unit::Nanos => "ns".into(),
        Unit::BytesPerSecond => "bytes/s".into(),
        Unit::OpsPerSecond => "operations/s".into(),
        Unit::Other(unit) => text(unit),
    }
}

/// [`value`] for a round figure, such as an axis' tick: `5 µs`.
pub fn exact(figure: f64, unit: &Unit) -> String {
    let text = value(figure, unit);
    match text.split_once(' ') {
        Some((digits, unit)) => format!("{} {unit}", trimmed(digits.into())),
        None => text,
    }
}

/// A span of time given in nanoseconds.
pub fn nanos(nanos: u64) -> String {
    value(nanos as f64, &Unit::Nanos)
}

/// A length of time: seconds, minutes or hours.
pub fn watched(nanos: u64) -> String {
    trimmed_scaled(nanos as f64 / 1e9, &[(1e-3, "ms"), (1.0, "s"), (60.0, "min"), (3600.0, "h")])
}

/// A size in binary multiples: `16 KiB`.
pub fn size(bytes: f64) -> String {
    trimmed_scaled(bytes, &[(1.0, "B"), (1024.0, "KiB"), (1048576.0, "MiB"), (1073741824.0, "GiB")])
}

/// A value on a curve's x axis, given the axis' title.
pub fn place(x: f64, title: &str) -> String {
    if title.ends_with("bytes") { size(x) } else { trimmed(significant(x)) }
}

/// A factor: `×1.90`, `×14.2`.
pub fn factor(ratio: f64) -> String {
    format!("×{}", ratio_digits(ratio))
}

/// An interval of factors: `[1.87, 1.93]`.
pub fn interval((low, high): (f64, f64)) -> String {
    format!("[{}, {}]", ratio_digits(low), ratio_digits(high))
}

/// A relative spread: `± 3 %`, `± 0.4 %`.
pub fn spread(relative: f64) -> String {
    let percent = relative * 100.0;
    match percent {
        p if !p.is_finite() => "± ?".into(),
        p if p < 0.05 => "± 0 %".into(),
        p if p < 0.95 => format!("± {p:.1} %"),
        p => format!("± {p:.0} %"),
    }
}

/// The 95 % bound on the share of events beyond the observed maximum, if none of n exceeded it: 3/n (the "rule of
/// three": Hanley and Lippman-Hand, JAMA 249 (13), 1983).
pub fn exceedance_bound(samples: u64) -> String {
    match samples {
        0..3 => "unknown".into(),
        n => {
            // A bound is rounded up: rounded down it would promise too much.
            let percent = 300.0 / n as f64;
            let step = 10f64.powf(percent.log10().floor() - 2.0);
            format!("< {} %", trimmed(significant((percent / step - 1e-9).ceil() * step)))
        }
    }
}

/// A large count in groups of three: `16 000`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// A figure with three significant digits, including zeros.
pub fn significant(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        "–".into()
    } else if magnitude == 0.0 {
        "0".into()
    } else if !(1e-4..1e7).contains(&magnitude) {
        format!("{value:.2e}")
    } else if magnitude >= 99.95 {
        format!("{value:.0}")
    } else if magnitude >= 9.995 {
        format!("{value:.1}")
    } else if magnitude >= 0.9995 {
        format!("{value:.2}")
    } else {
        let leading_zeros = -magnitude.log10().floor() as usize - 1;
        format!("{value:.*}", 3 + leading_zeros)
    }
}

/// Text from a results file, safe to show on one line. Characters that control a terminal or change the direction
/// of text are replaced.
pub fn text(text: &str) -> String {
    text.chars().map(|c| if is_unfit(c) { '\u{fffd}' } else { c }).collect()
}

fn is_unfit(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A whole page of text, safe to show. Replaces the characters that [`text`] replaces, but keeps line ends and
/// tabs and, with `color`, the codes that set colours and bold type.
pub fn page(text: &str, color: bool) -> String {
    let mut fit = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let code = if color { color_code(rest) } else { None };
        let whole = code.unwrap_or(&rest[..c.len_utf8()]);
        match code.is_none() && is_unfit(c) && !matches!(c, '\n' | '\t') {
            true => fit.push('\u{fffd}'),
            false => fit.push_str(whole),
        }
        rest = &rest[whole.len()..];
    }
    fit
}

/// The code for a colour, bold or faint type, or none of them, that a text begins with (ECMA-48, SGR).
fn color_code(text: &str) -> Option<&str> {
    let numbers = text.strip_prefix("\x1b[")?;
    let numbers = &numbers[..numbers.find(|c: char| !c.is_ascii_digit() && c != ';')?];
    // Concealed text is none of these.
    let is_known =
        |number: &str| matches!(number.parse(), Ok(0..=2 | 22 | 30..=39 | 90..=97 | 5)) || number.is_empty();
    let code = &text[..2 + numbers.len() + 1];
    // A colour by its number, as in 38;5;9, is none of the others.
    let is_indexed = numbers.starts_with("38;5;");
    (code.ends_with('m') && (is_indexed || numbers.split(';').all(is_known))).then_some(code)
}

fn trimmed(digits: String) -> String {
    if digits.contains('.') && !digits.contains('e') {
        digits.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        digits
    }
}

fn ratio_digits(ratio: f64) -> String {
    match ratio {
        r if !r.is_finite() => "–".into(),
        r if r >= 1e5 || (r != 0.0 && r < 0.005) => format!("{r:.1e}"),
        r if r >= 99.95 => format!("{r:.0}"),
        r if r >= 9.995 => format!("{r:.1}"),
        r => format!("{r:.2}"),
    }
}

/// For exact values, which were not measured.
fn trimmed_scaled(value: f64, scales: &[(f64, &str)]) -> String {
    let text = scaled(value, scales);
    match text.split_once(' ') {
        Some((digits, unit)) => format!("{} {unit}", trimmed(digits.into())),
        None => text,
    }
}

fn scaled(value: f64, scales: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    // 999.6 would round to "1000 ns": it belongs to the next scale.
    let fits = |scale: f64| value.abs() >= scale * 0.9995;
    let (scale, name) = scales.iter().rev().find(|(scale, _)| fits(*scale)).unwrap_or(&scales[0]);
    format!("{} {name}", significant(value / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_take_the_scale_that_reads_best() {
        for (nanos, shown) in [
            (0.0, "0 ns"),
            (0.7312, "0.731 ns"),
            (3.614, "3.61 ns"),
            (112.4, "112 ns"),
            (999.7, "1.00 µs"),
            (5_612.0, "5.61 µs"),
            (512_345.0, "512 µs"),
            (2.5e9, "2.50 s"),
            (3e-6, "3.00e-6 ns"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(value(nanos, &Unit::Nanos), shown);
        }
        assert_eq!(value(11.2e9, &Unit::BytesPerSecond), "11.2 GB/s");
        assert_eq!(value(48_211.0, &Unit::OpsPerSecond), "48.2 k/s");
        assert_eq!(value(21_400.0, &Unit::Other("it/s".into())), "21400 it/s");
        assert_eq!(size(16384.0), "16 KiB");
        assert_eq!(watched(16_000_000_000), "16 s");
        assert_eq!(watched(7_200_000_000_000), "2 h");
    }

    #[test]
    fn factors_keep_the_digits_that_tell_them_apart() {
        assert_eq!(factor(1.0), "×1.00");
        assert_eq!(factor(14.234), "×14.2");
        assert_eq!(factor(417.81), "×418");
        assert_eq!(factor(0.0001), "×1.0e-4");
        assert_eq!(interval((0.974, 1.0312)), "[0.97, 1.03]");
    }

    #[test]
    fn the_bound_is_three_over_n() {
        assert_eq!(exceedance_bound(16_000), "< 0.0188 %");
        assert_eq!(exceedance_bound(300), "< 1 %");
        assert_eq!(exceedance_bound(0), "unknown");
    }

    #[test]
    fn text_cannot_drive_a_terminal() {
        assert_eq!(text("a\x1b[31mb\nc\u{202e}d"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d");
        let hostile = "a\x1b]0;t\x07\x1b[2J\x1b[8mb\r\u{9b}31m\u{202e}c";
        let fit = "a\u{fffd}]0;t\u{fffd}\u{fffd}[2J\u{fffd}[8mb\u{fffd}\u{fffd}31m\u{fffd}c";
        assert_eq!((page(hostile, true), page(hostile, false)), (fit.to_owned(), fit.to_owned()));
        let own = "\x1b[1m\x1b[38;5;9mä\x1b[0m\t\x1b[1;31mb\x1b[39m\n";
        assert_eq!(page(own, true), own);
        assert!(!page(own, false).contains('\x1b'));
        for cut in ["\x1b", "\x1b[", "\x1b[1", "\x1b[1;", "\x1b[999999999999m", "\x1b[38;2;1;2;3q"] {
            assert!(!page(cut, true).contains('\x1b'), "{cut:?}");
        }
        assert_eq!(count(16000), "16\u{202f}000");
    }
}
