//! Draws the made-up example run, or a results file given as argument: `show terminal WIDTH FILE`,
//! `show html - FILE FILE`, `show json` for the file itself.
use measure::{Results, compare, example};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let results = match arguments.get(2) {
        Some(path) => Results::load(path.as_ref())?,
        None => example::results(),
    };
    if arguments.first().is_some_and(|kind| kind == "json") {
        println!("{}", serde_json::to_string(&results)?);
    } else if arguments.first().is_some_and(|kind| kind == "html") {
        // A second file is compared with the first.
        let second = arguments.get(3).map(|path| Results::load(path.as_ref())).transpose()?;
        let runs: Vec<Results> = [results].into_iter().chain(second).collect();
        print!("{}", report::html::render(&runs));
    } else {
        let width = arguments.get(1).map_or(Ok(100), |text| text.parse())?;
        print!("{}", report::terminal::render(&results, &compare::analyse(&results), width, false));
    }
    Ok(())
}
