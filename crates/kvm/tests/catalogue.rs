//! The table of costs, and the page that shows it.

use kvm::costs::ROWS;

#[test]
fn names_are_unique() {
    let mut ids: Vec<_> = ROWS.iter().map(|row| row.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), ROWS.len());
}

#[test]
fn the_page_has_all_rows() {
    let page = include_str!("../../../docs/kvm.md");
    for row in ROWS {
        let name = |name: Option<&str>| name.map(|name| format!(" {name}")).unwrap_or_default();
        let (vmexit, arm) = (name(row.vmexit), name(row.arm));
        let line = format!("| `{}` | {} |{vmexit} |{arm} |", row.id, row.title);
        assert!(page.contains(&line), "{line}");
    }
}
