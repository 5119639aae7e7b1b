//! Patterns for names of metrics: `*` matches any characters, including dots; every other character matches
//! itself.

/// Whether the pattern covers the whole name.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    // Taking each part at its first place leaves the most room for those after it.
    for part in parts {
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_covers_anything_and_nothing_else_does() {
        for (pattern, name, expected) in [
            ("os.pipe", "os.pipe", true),
            ("os.pipe", "os.pipe.latency", false),
            ("os.*", "os.pipe.latency", true),
            ("*latency", "os.pipe.latency", true),
            ("*.pipe.*", "os.pipe.latency", true),
            ("a*b*b", "ab", false),
            ("a*ab", "aab", true),
            ("*", "", true),
            ("os.?", "os.x", false),
            ("o*o", "o", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
