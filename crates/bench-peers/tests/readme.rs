//! The ten rows of README.md are those that the renderer makes of the raw file of the run that it names.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Cells of the first table behind this line, its headings first, its rule left out.
fn table(text: &str, behind: &str) -> Vec<Vec<String>> {
    let lines = text.lines().skip_while(|line| !line.starts_with(behind));
    let lines = lines.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    let mut rows: Vec<Vec<String>> = lines.map(cells).collect();
    assert!(rows.len() > 2, "no table behind '{behind}'");
    rows.remove(1);
    rows
}

/// A row of the overview as README.md has it: without what stands in parentheses there.
fn shortened(headings: &[String], row: &[String]) -> Vec<String> {
    let cell = |heading: &str| {
        let at = headings.iter().position(|there| there.starts_with(heading));
        row[at.unwrap_or_else(|| panic!("no column '{heading}' in {headings:?}"))].as_str()
    };
    let first = |heading| cell(heading).split(" (").next().unwrap().to_owned();
    vec![
        cell("frames").into(),
        cell("bytes").into(),
        cell("ring").into(),
        first("Tautline, Mpps"),
        cell("DPDK, Mpps").into(),
        cell("OVS-DPDK, Mpps").into(),
        first("rate over DPDK").replace("no difference shown", "(no difference shown)"),
        cell("busy over DPDK").into(),
        cell("limited by").into(),
        // None where all rounds are of one class.
        cell("core-to-core")
            .split('(')
            .next()
            .map(str::trim)
            .filter(|class| !class.is_empty())
            .unwrap_or("–")
            .into(),
    ]
}

#[test]
fn the_readmes_rows_are_those_of_the_newest_run() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let part = readme.split("<!-- packets: begin -->").nth(1).unwrap();
    let part = part.split("<!-- packets: end -->").next().unwrap();
    // The page that is named first is the run's.
    let run = part.split("docs/results/").nth(1).and_then(|rest| rest.split(".md").next()).unwrap();
    let day = |name: &str| name[..10].to_owned();
    // Folders of runs that are not kept lie there too.
    let raw = fs::read_dir(root().join("bench-results")).unwrap();
    let names = raw.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let newest = names.filter(|name| name.ends_with(".json.gz")).map(|name| day(&name)).max().unwrap();
    assert_eq!(day(run), newest, "README.md names a run, and there is a newer one");
    assert!(part.contains(&format!("`make bench-peers`, {newest},")), "{part}");

    let folder = tempfile::tempdir().unwrap();
    let packed = root().join(format!("bench-results/{run}.json.gz"));
    let unpacked = Command::new("gzip").arg("-dc").arg(&packed).output().unwrap();
    assert!(unpacked.status.success(), "{}: {unpacked:?}", packed.display());
    let file = folder.path().join("results.json");
    fs::write(&file, unpacked.stdout).unwrap();
    let drawn = Command::new(env!("CARGO_BIN_EXE_bench-peers")).arg("render").arg(&file).output().unwrap();
    assert!(drawn.status.success(), "{}", String::from_utf8_lossy(&drawn.stderr));
    let overview = table(&String::from_utf8(drawn.stdout).unwrap(), "### Rate and busy time");

    let page = fs::read_to_string(root().join(format!("docs/results/{run}.md"))).unwrap();
    assert_eq!(table(&page, "### Rate and busy time"), overview, "docs/results/{run}.md");
    let expected: Vec<_> = overview[1..].iter().map(|row| shortened(&overview[0], row)).collect();
    let rows = table(part, "");
    assert_eq!(&rows[1..], expected, "README.md");
    assert_eq!(rows.len(), 11, "ten rows and their headings");
}
