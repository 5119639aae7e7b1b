//! A state machine over an input stream: it classifies the words of a text by kind of number.

use std::hint::black_box;

use super::kernel::Kernel;
use super::mix::{Generator, fold};

const BYTES: usize = 2048;
const SEED: u32 = 0x57a7_e0e5;

/// What the machine has seen of the current word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Start,
    Sign,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
    Invalid,
}

const STATES: usize = State::Invalid as usize + 1;

impl State {
    fn after(self, byte: u8) -> State {
        match (self, byte) {
            (State::Start, b'+' | b'-') => State::Sign,
            (State::Start | State::Sign | State::Integer, b'0'..=b'9') => State::Integer,
            (State::Start | State::Sign | State::Integer, b'.') => State::Point,
            (State::Point | State::Fraction, b'0'..=b'9') => State::Fraction,
            (State::Integer | State::Fraction, b'e') => State::Exponent,
            (State::Exponent, b'+' | b'-') => State::ExponentSign,
            (State::Exponent | State::ExponentSign | State::ExponentDigits, b'0'..=b'9') => {
                State::ExponentDigits
            }
            _ => State::Invalid,
        }
    }
}

/// The words the stream is made of, before some of their bytes are replaced.
const WORDS: [&[u8]; 8] =
    [b"5012", b"-874", b"+122", b"35.54400", b".1234500", b"5.500e+3", b"-.123e-2", b"T0.3e-1F"];

pub(crate) struct StateMachine {
    stream: Vec<u8>,
}

impl Default for StateMachine {
    fn default() -> Self {
        StateMachine { stream: stream() }
    }
}

fn stream() -> Vec<u8> {
    let mut random = Generator::new(SEED);
    let mut stream = Vec::with_capacity(BYTES + 16);
    while stream.len() < BYTES {
        stream.extend_from_slice(WORDS[random.next() as usize >> 29]);
        stream.push(b',');
    }
    stream.truncate(BYTES);
    for _ in 0..BYTES / 64 {
        let place = (random.next() >> 16) as usize % BYTES;
        stream[place] = b"0.+-e,9x"[(random.next() >> 29) as usize];
    }
    stream
}

impl Kernel for StateMachine {
    const EXPECTED: u32 = 0xed83_1740;

    fn run(&mut self) -> u32 {
        let stream: &[u8] = black_box(&self.stream);
        let (mut ended, mut visits) = ([0u32; STATES], [0u32; STATES]);
        let mut state = State::Start;
        for &byte in stream {
            if byte == b',' {
                ended[state as usize] += 1;
                state = State::Start;
            } else {
                state = state.after(byte);
                visits[state as usize] += 1;
            }
        }
        ended.into_iter().chain(visits).fold(0, fold)
    }

    #[cfg(test)]
    fn corrupt(&mut self) {
        let place = self.stream.iter().position(|byte| byte.is_ascii_digit()).expect("numbers have digits");
        self.stream[place] = b'x';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kind of a word by its grammar, without a machine.
    fn state_of(word: &str) -> State {
        if word.is_empty() {
            return State::Start;
        }
        let unsigned = word.strip_prefix(['+', '-']).unwrap_or(word);
        if unsigned.is_empty() {
            return State::Sign;
        }
        let (mantissa, exponent) = match unsigned.split_once('e') {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let mantissa_state = match mantissa.split_once('.') {
            None if digits(mantissa) && !mantissa.is_empty() => State::Integer,
            Some((whole, "")) if digits(whole) => State::Point,
            Some((whole, fraction)) if digits(whole) && digits(fraction) => State::Fraction,
            _ => State::Invalid,
        };
        match (mantissa_state, exponent) {
            (state, None) => state,
            (State::Integer | State::Fraction, Some("")) => State::Exponent,
            (State::Integer | State::Fraction, Some("+" | "-")) => State::ExponentSign,
            (State::Integer | State::Fraction, Some(exponent))
                if digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)) =>
            {
                State::ExponentDigits
            }
            _ => State::Invalid,
        }
    }

    #[test]
    fn the_expected_value_is_that_of_the_grammar() {
        let text = String::from_utf8(stream()).unwrap();
        let (mut ended, mut visits) = ([0u32; STATES], [0u32; STATES]);
        let mut words = text.split(',').peekable();
        while let Some(word) = words.next() {
            for end in 1..=word.len() {
                visits[state_of(&word[..end]) as usize] += 1;
            }
            if words.peek().is_some() {
                ended[state_of(word) as usize] += 1;
            }
        }
        let sum = ended.into_iter().chain(visits).fold(0, fold);
        assert!(visits[1..].iter().all(|count| *count > 0), "every state is visited: {visits:?}");
        assert_eq!(StateMachine::EXPECTED, sum, "{sum:#010x}");
    }
}
