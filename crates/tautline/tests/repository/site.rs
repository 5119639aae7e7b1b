//! `make docs` fails where a link of the site is dead. documentation.rs beside this file follows the links of the pages
//! themselves, without a site.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Whether all links of a site are alive, and what was said of it.
fn followed(site: &Path) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/docs.py");
    let output = Command::new("python3").arg(script).arg("--check").arg(site).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_dead_link_of_the_site_is_found() {
    let site = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = site.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    write("docs/a.html", r#"<h1 id="top">A</h1><a href="../">up</a><img src="a%20picture.png">"#);
    write("docs/a picture.png", "");
    write(
        "index.html",
        r##"<p id="here"><a href="docs/a.html#top"></a><a href="#here"></a><a href="https://elsewhere/"></a>"##,
    );
    let (alive, said) = followed(site.path());
    assert!(alive && said.contains("2 pages, 4 links followed, 0 dead"), "{said}");
    for dead in ["docs/b.html", "docs/a.html#bottom", "#there", "docs", "../index.html"] {
        write("index.html", &format!("<a href=\"{dead}\"></a>"));
        let (alive, said) = followed(site.path());
        assert!(!alive && said.contains(&format!("index.html: {dead}")), "{dead}: {said}");
    }
    // Nothing followed is nothing shown.
    write("index.html", "");
    write("docs/a.html", "");
    assert!(!followed(site.path()).0);
}
