//! Looks up functions by name in the kernel's type information (BTF, Documentation/bpf/btf.rst).

/// The number of the function with this name.
pub(super) fn function(btf: &[u8], name: &str) -> Option<u32> {
    const FUNCTION: u32 = 12;
    let header = |offset| word(btf, offset).map(|word| word as usize);
    // After magic number, version and flags: the header's length, then place and length of types and of names.
    let [length, types_at, types_len, names_at, names_len] =
        [header(4)?, header(8)?, header(12)?, header(16)?, header(20)?];
    let mut types = part(btf, length.checked_add(types_at)?, types_len)?;
    let names = part(btf, length.checked_add(names_at)?, names_len)?;
    let is_named = |offset: u32| {
        let rest = names.get(offset as usize..).and_then(|rest| rest.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    };
    // Types have the numbers from 1 on, in their order.
    for number in 1.. {
        let (name_at, information) = (word(types, 0)?, word(types, 4)?);
        let (kind, members) = (information >> 24 & 0x1f, information as usize & 0xffff);
        if kind == FUNCTION && is_named(name_at) {
            return Some(number);
        }
        types = types.get(12 + bytes_behind(kind, members)?..)?;
    }
    None
}

/// Bytes that follow the common part of a type of this kind.
fn bytes_behind(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // Pointers, forward declarations, typedefs, qualifiers, functions, floating point, tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        // Integers, variables, tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections, enumerations of 64 bits.
        4 | 5 | 15 | 19 => 12 * members,
        // Enumerations, prototypes.
        6 | 13 => 8 * members,
        _ => return None,
    })
}

fn part(bytes: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    bytes.get(at..at.checked_add(len)?)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(part(bytes, at, 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types, each as its words, and the names.
    fn btf(types: &[&[u32]], names: &[u8]) -> Vec<u8> {
        let types: Vec<u8> = types.concat().iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types.len(), types.len(), names.len()] {
            bytes.extend((word as u32).to_ne_bytes());
        }
        [bytes, types, names.to_vec()].concat()
    }

    #[test]
    fn a_function_is_found_behind_types_of_other_kinds() {
        let kind = |kind: u32, members: u32| kind << 24 | members;
        let types: [&[u32]; 5] = [
            &[1, kind(1, 0), 4, 32],                // an integer
            &[0, kind(4, 2), 8, 1, 1, 0, 1, 1, 32], // a structure of two members
            &[0, kind(13, 1), 0, 1, 1],             // a prototype
            &[1, kind(12, 0), 3],                   // a function
            &[5, kind(12, 0), 3],                   // another
        ];
        let whole = btf(&types, b"\0int\0call\0");
        assert_eq!(function(&whole, "call"), Some(5));
        assert_eq!(function(&whole, "int"), Some(4), "the integer of that name is none");
        assert_eq!(function(&whole, "cal"), None);
        for len in 0..whole.len() {
            let _ = function(&whole[..len], "call");
        }
        let mut unknown = whole.clone();
        unknown[31] = 31;
        assert_eq!(function(&unknown, "call"), None);
    }
}
