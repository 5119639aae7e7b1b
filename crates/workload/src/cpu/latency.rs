//! Latencies of arithmetic operations: chains in which each step needs the result of the one before.
//!
//! Every pair of steps leads back to the first value exactly, so that operands never reach values for which a unit is
//! faster or slower (subnormals, short quotients), and the last value shows that the chain was computed.

use crate::opaque::{hide_f32, hide_f64, hide_u32, hide_u64};

/// An arithmetic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    IntAdd,
    IntMultiply,
    IntDivide,
    FloatAdd,
    FloatMultiply,
    FloatDivide,
    DoubleAdd,
    DoubleMultiply,
    DoubleDivide,
}

impl Operation {
    pub(crate) const ALL: [Operation; 9] = [
        Operation::IntAdd,
        Operation::IntMultiply,
        Operation::IntDivide,
        Operation::FloatAdd,
        Operation::FloatMultiply,
        Operation::FloatDivide,
        Operation::DoubleAdd,
        Operation::DoubleMultiply,
        Operation::DoubleDivide,
    ];

    /// The last word of the metric's name and the title.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Operation::IntAdd => ("int_add", "integer add, 64 bit"),
            Operation::IntMultiply => ("int_multiply", "integer multiply, 64 bit"),
            Operation::IntDivide => ("int_divide", "integer divide, 32 bit"),
            Operation::FloatAdd => ("float_add", "float add"),
            Operation::FloatMultiply => ("float_multiply", "float multiply"),
            Operation::FloatDivide => ("float_divide", "float divide"),
            Operation::DoubleAdd => ("double_add", "double add"),
            Operation::DoubleMultiply => ("double_multiply", "double multiply"),
            Operation::DoubleDivide => ("double_divide", "double divide"),
        }
    }
}

/// Steps in one unit of work. A unit is long enough to make the cost of the loop around it negligible.
pub(crate) const STEPS: u32 = 512;

/// Pairs of steps unrolled in one turn of the loop.
const UNROLLED: u32 = 16;

macro_rules! chain {
    ($start:expr, $hide:ident, |$value:ident| $one:expr, $other:expr) => {{
        let start = $hide($start);
        let mut $value = start;
        for _ in 0..STEPS / (2 * UNROLLED) {
            for _ in 0..UNROLLED {
                $value = $hide($one);
                $value = $hide($other);
            }
        }
        $value == start
    }};
}

/// One unit: [`STEPS`] dependent operations. Returns false if the result of the arithmetic is wrong.
pub(crate) fn run(operation: Operation) -> bool {
    match operation {
        Operation::IntAdd => {
            let (up, down) =
                (hide_u64(0x1234_5678_9abc_def1), hide_u64(0x1234_5678_9abc_def1_u64.wrapping_neg()));
            chain!(77, hide_u64, |x| x.wrapping_add(up), x.wrapping_add(down))
        }
        Operation::IntMultiply => {
            let (factor, inverse) = (hide_u64(ODD), hide_u64(INVERSE));
            chain!(0x0123_4567_89ab_cdef, hide_u64, |x| x.wrapping_mul(factor), x.wrapping_mul(inverse))
        }
        // The quotient is the next divisor: with the product of two primes it alternates between them.
        // 32 bits, because compilers put a test for small operands before a wider division.
        Operation::IntDivide => {
            let product = hide_u32(46_337 * 46_349);
            chain!(46_337, hide_u32, |x| product / x, product / x)
        }
        Operation::FloatAdd => {
            let (up, down) = (hide_f32(0.5), hide_f32(-0.5));
            chain!(1.25, hide_f32, |x| x + up, x + down)
        }
        Operation::FloatMultiply => {
            let (factor, inverse) = (hide_f32(2.0), hide_f32(0.5));
            chain!(1.7, hide_f32, |x| x * factor, x * inverse)
        }
        // Both primes and their product fit the 24 bits of a float's fraction.
        Operation::FloatDivide => {
            let product = hide_f32(4_093.0 * 4_091.0);
            chain!(4_093.0, hide_f32, |x| product / x, product / x)
        }
        Operation::DoubleAdd => {
            let (up, down) = (hide_f64(0.5), hide_f64(-0.5));
            chain!(1.25, hide_f64, |x| x + up, x + down)
        }
        Operation::DoubleMultiply => {
            let (factor, inverse) = (hide_f64(2.0), hide_f64(0.5));
            chain!(1.7, hide_f64, |x| x * factor, x * inverse)
        }
        // The product of the two odd factors fits the 53 bits of a double's fraction.
        Operation::DoubleDivide => {
            let product = hide_f64(94_906_247.0 * 94_906_249.0);
            chain!(94_906_247.0, hide_f64, |x| product / x, product / x)
        }
    }
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The inverse of [`ODD`] modulo 2^64.
const INVERSE: u64 = crate::arithmetic::inverse(ODD);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chain_comes_back_to_its_start() {
        for operation in Operation::ALL {
            assert!(run(operation), "{operation:?}");
        }
    }

    #[test]
    fn a_chain_that_goes_astray_is_seen() {
        let wrong = hide_u64(3);
        assert!(!chain!(77, hide_u64, |x| x.wrapping_add(wrong), x.wrapping_add(wrong)));
    }

    #[test]
    fn the_factors_are_exact() {
        assert_eq!(ODD.wrapping_mul(INVERSE), 1);
        assert_eq!((94_906_247.0 * 94_906_249.0) as u64, 94_906_247 * 94_906_249);
        assert_eq!((4_093.0f32 * 4_091.0) as u32, 4_093 * 4_091);
        assert_eq!(46_337u64 * 46_349, u64::from(46_337u32 * 46_349));
    }
}
