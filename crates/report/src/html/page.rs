//! Parts that all pages share.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// The script that finds a metric by its name: the only script of a page.
const FINDER: &str = include_str!("find.js");
/// The finder's SHA-256 in base64, by which the page's policy allows this script and no other.
const FINDER_HASH: &str = "z3O7pj8GgZFwqM0xZ+Xl4hbYsyw4560gEZyzFLtkgjQ=";

/// A page that runs no script.
pub(super) fn page(title: &str, body: Markup) -> String {
    with_policy(title, "default-src 'none'; style-src 'unsafe-inline'", body)
}

/// A page with the script that finds a metric.
pub(super) fn page_with_finder(title: &str, body: Markup) -> String {
    let policy = format!("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{FINDER_HASH}'");
    with_policy(title, &policy, html! { (body) script { (PreEscaped(FINDER)) } })
}

fn with_policy(title: &str, policy: &str, body: Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) " – Tautline" }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    }
    .into_string()
}

/// A table that scrolls sideways if the page is too narrow for it.
pub(super) fn scrolling(table: Markup) -> Markup {
    html! { div class="scroll" tabindex="0" { (table) } }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let letters = |three: &[u8]| -> String {
            let word =
                (0..3).fold(0_u32, |word, place| word << 8 | u32::from(*three.get(place).unwrap_or(&0)));
            let letter = |place: usize| char::from(LETTERS[(word >> (18 - 6 * place) & 63) as usize]);
            (0..4).map(|place| if place <= three.len() { letter(place) } else { '=' }).collect()
        };
        bytes.chunks(3).map(letters).collect()
    }

    #[test]
    fn the_policy_allows_the_finder() {
        assert_eq!(
            (base64(b"a"), base64(b"ab"), base64(b"abc")),
            ("YQ==".into(), "YWI=".into(), "YWJj".into())
        );
        assert_eq!(FINDER_HASH, base64(&Sha256::digest(FINDER)), "find.js has changed: this is its new hash");
        assert!(!FINDER.contains("</"), "it would end the script");
    }
}
