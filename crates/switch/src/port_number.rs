//! The choice of a port's OpenFlow number.

/// The highest number of a port that is not reserved (OpenFlow 1.0, `OFPP_MAX`).
const MOST: u16 = 0xfeff;

/// The number of a new port: the requested one, or the first free one from `first` on. `taken` has the numbers of the
/// other ports of the network.
///
/// # Errors
/// The requested number, because another port has it.
pub(crate) fn choose(requested: Option<u16>, first: u16, taken: &[u16]) -> Result<u16, u16> {
    let is_free = |number: &u16| !taken.contains(number);
    match requested {
        Some(number) if is_free(&number) => Ok(number),
        Some(number) => Err(number),
        // A switch has fewer ports than there are numbers.
        None => Ok((first..=MOST).chain(1..first).find(is_free).unwrap_or(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_requested_one_or_the_next_free_one() {
        assert_eq!(choose(Some(7), 1, &[1, 2]), Ok(7));
        assert_eq!(choose(Some(2), 1, &[1, 2]), Err(2));
        assert_eq!(choose(None, 2, &[1, 2, 3, 5]), Ok(4));
        assert_eq!(choose(None, MOST, &[MOST, 1]), Ok(2));
    }
}
