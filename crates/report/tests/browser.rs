//! The page in a real browser: its plots have a size, and no request leaves it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use measure::example;
use report::html;
use tempfile::TempDir;

/// The browser; none where this machine has none and may go without.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|folder| ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name)))
        .find(|candidate| candidate.is_file());
    if found.is_none() {
        peers::absent("chromium", "PATH has no chromium (apt-get install chromium)");
    }
    found
}

/// A folder of one test: the page, the browser's profile, its log.
struct Desk {
    folder: TempDir,
    browser: PathBuf,
}

impl Desk {
    fn new() -> Option<Self> {
        Some(Desk { browser: browser()?, folder: tempfile::tempdir().unwrap() })
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("requests.json")
    }

    /// Opens a page and gives back its DOM.
    fn open(&self, page: &str, width: u32) -> String {
        let file = self.folder.path().join("page.html");
        fs::write(&file, page).unwrap();
        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let output = Command::new(&self.browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            // The browser's own requests go nowhere either: the test needs no network and uses none.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
            .arg(flag("user-data-dir", &self.folder.path().join("profile")))
            .arg(flag("log-net-log", &self.log()))
            .arg(format!("--window-size={width},2000"))
            .args(["--timeout=20000", "--dump-dom"])
            .arg(format!("file://{}", file.display()))
            .output()
            .unwrap_or_else(|error| panic!("starting {}: {error}", self.browser.display()));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The addresses that the page itself asked for. The browser's own requests have no origin that
    /// initiated them.
    fn requests(&self) -> Vec<String> {
        let text = fs::read_to_string(self.log()).unwrap();
        let log: serde_json::Value = serde_json::from_str(&text).unwrap();
        let start = &log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"];
        assert!(start.is_u64(), "the log of this browser has another form");
        let events = log["events"].as_array().unwrap().iter().filter(|event| event["type"] == *start);
        events
            .filter(|event| event["params"]["initiator"] != "not an origin")
            .filter_map(|event| event["params"]["url"].as_str())
            .filter(|url| !url.starts_with("file:") && !url.starts_with("data:"))
            .map(String::from)
            .collect()
    }
}

/// The sizes of all plots as the browser lays them out: (width, height), and what sticks out of the page.
fn plot_sizes(desk: &Desk, page: &str, width: u32) -> (Vec<(f64, f64)>, bool) {
    // The page allows no script but its own. To be measured, a copy is allowed this one.
    let script = "<script>\
        let sizes = [...document.querySelectorAll('svg.plot')].map(s => s.getBoundingClientRect());\
        document.title = 'SIZES ' + sizes.map(r => r.width + 'x' + r.height).join(' ')\
            + ' WIDER ' + (document.documentElement.scrollWidth > innerWidth);\
        </script></body>";
    let measured = page
        .replace("default-src 'none'; style-src", "default-src 'none'; script-src 'unsafe-inline'; style-src")
        .replace("</body>", script);
    let dom = desk.open(&measured, width);
    let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).unwrap();
    let (sizes, wider) = title.strip_prefix("SIZES ").expect(title).split_once(" WIDER ").unwrap();
    let size = |text: &str| {
        let (width, height) = text.split_once('x').unwrap();
        (width.parse().unwrap(), height.parse().unwrap())
    };
    (sizes.split(' ').map(size).collect(), wider == "true")
}

/// What a script finds on the page; it writes its answer into the title.
fn answered(desk: &Desk, page: &str, script: &str, width: u32) -> String {
    let policy = "script-src 'sha256-";
    assert_eq!(page.matches(policy).count(), 1);
    // Another script with a hash of its own would need a policy of its own: a nonce allows it beside the page's own.
    let page = page.replace(policy, "script-src 'nonce-test' 'sha256-");
    let page = page.replace("</body>", &format!("<script nonce=\"test\">{script}</script></body>"));
    let dom = desk.open(&page, width);
    dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next()).unwrap().to_owned()
}

#[test]
fn a_metric_is_found_by_typing() {
    let Some(desk) = Desk::new() else { return };
    let script = "const shown = () => [...document.querySelectorAll('tr[data-find]')].filter(r => r.getClientRects().length).map(r => r.dataset.find);\
        const type = words => { box.value = words; box.dispatchEvent(new Event('input')); };\
        const before = shown().length;\
        type('SYSTEM call'); const found = shown(), open = document.querySelector('#run1-gaps details').hidden;\
        type('no such metric'); const none = shown().length;\
        type(''); const after = shown().length;\
        document.title = ['FOUND', before, found.join('|'), open, none, after, document.querySelector('#run1-gaps details').open].join(' ; ');";
    let found = answered(&desk, &html::render(&[example::results()]), script, 1200);
    let parts: Vec<&str> = found.split(" ; ").collect();
    let [_, before, rows, gaps_hidden, none, after, gaps_open] = parts[..] else { panic!("{found}") };
    assert!(
        !rows.is_empty() && rows.split('|').all(|row| row.to_lowercase().contains("system call")),
        "{found}"
    );
    assert_eq!((gaps_hidden, none, gaps_open), ("true", "0", "false"), "{found}");
    assert!(before == after && before.parse::<usize>().unwrap() > rows.split('|').count(), "{found}");
}

#[test]
fn nothing_is_cut_at_three_widths() {
    let Some(desk) = Desk::new() else { return };
    // What sticks out of the page on either side, apart from tables, which scroll by themselves.
    let script = "const out = [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('svg') && e.getClientRects().length\
            && (e.getBoundingClientRect().right > innerWidth + 1 || e.getBoundingClientRect().left < -1));\
        const first = [...document.querySelectorAll('.answer svg.dots')].map(s => Math.round(s.getBoundingClientRect().width));\
        document.title = 'OUT ' + out.map(e => e.tagName + '.' + e.className).join(' ') + ' DOTS ' + first.join(' ');";
    for width in [500, 800, 1400] {
        let found = answered(&desk, &html::render(&[example::results()]), script, width);
        let (out, dots) = found.strip_prefix("OUT ").expect(&found).split_once(" DOTS ").unwrap();
        assert_eq!(out, "", "at {width}");
        let dots: Vec<u32> = dots.split(' ').map(|width| width.parse().unwrap()).collect();
        assert!(!dots.is_empty() && dots.iter().all(|dot| (250..width).contains(dot)), "{dots:?} at {width}");
    }
}

#[test]
fn the_plots_are_there_on_a_desk_and_on_a_phone() {
    let Some(desk) = Desk::new() else { return };
    let page = html::render(&[example::results()]);
    // Five groups of ratios, four curves, two distributions.
    for window in [1200, 500] {
        let (sizes, wider) = plot_sizes(&desk, &page, window);
        assert_eq!(sizes.len(), 11, "{sizes:?}");
        for (width, height) in sizes {
            assert!(width > 300.0 && width <= f64::from(window) && height > 40.0, "{width} x {height}");
        }
        assert!(!wider, "the page scrolls sideways at {window}");
    }
}

#[test]
fn two_runs_on_one_page_have_their_plots_too() {
    let Some(desk) = Desk::new() else { return };
    let mut after = example::results();
    for trial in after.trials.iter_mut().filter(|trial| trial.metric.as_str() == "os.syscall") {
        trial.outcome.value *= 2.0;
    }
    let (sizes, _) = plot_sizes(&desk, &html::render(&[example::results(), after]), 1200);
    assert!(sizes.len() > 22 && sizes.iter().all(|size| size.0 > 300.0 && size.1 > 30.0), "{sizes:?}");
}

#[test]
fn several_runs_have_a_trend_of_what_changed() {
    let Some(desk) = Desk::new() else { return };
    let run = |day: usize| {
        let mut run = example::results();
        run.started = format!("2026-01-0{day}T00:00:00Z");
        let trials = run.trials.iter_mut();
        let slowed = trials.filter(|t| t.metric.as_str() == "os.syscall" && t.environment == "container");
        slowed.for_each(|trial| trial.outcome.value *= day as f64);
        run
    };
    let page = html::render(&[run(1), run(2), run(3)]);
    let script = "const row = document.querySelector('#all-os tr.changed');\
        const lines = [...document.querySelectorAll('#all-runs svg.plot')].map(s => s.querySelectorAll('.marker').length);\
        const out = document.documentElement.scrollWidth > innerWidth;\
        document.title = ['TREND', row.dataset.find, row.querySelectorAll('.spark circle').length, lines.join('|'), out].join(' ; ');";
    for width in [500, 1400] {
        let found = answered(&desk, &page, script, width);
        assert_eq!(found, "TREND ; os.syscall system call ; 3 ; 3 ; false", "at {width}");
    }
}

#[test]
fn no_request_leaves_the_page() {
    let Some(desk) = Desk::new() else { return };
    let dom = desk.open(&html::render(&[example::results()]), 1200);
    assert!(dom.contains("class=\"plot\""), "the page was not opened");
    assert_eq!(desk.requests(), Vec::<String>::new());
}

#[test]
fn a_request_would_have_been_seen_and_the_pages_policy_stops_it() {
    let Some(desk) = Desk::new() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/tracker.png", listener.local_addr().unwrap());
    // Drop what connects: the request is what counts, not its answer.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let tracker = format!("<img src=\"{address}\"></body>");
    let plain = format!("<!doctype html><body>{tracker}</html>");
    desk.open(&plain, 800);
    assert!(desk.requests().contains(&address), "the check is blind: {:?}", desk.requests());
    let page = html::render(&[example::results()]).replace("</body>", &tracker);
    desk.open(&page, 800);
    assert_eq!(desk.requests(), Vec::<String>::new(), "the page's policy let a request out");
}
