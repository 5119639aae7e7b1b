//! Draws the made-up example run, or a results file given as argument: `show terminal WIDTH`, `show html`.
use measure::{Results, compare, example};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let results = match arguments.get(2) {
        Some(path) => Results::load(path.as_ref())?,
        None => example::results(),
    };
    if arguments.first().is_some_and(|kind| kind == "html") {
        print!("{}", report::html::render(&[results]));
    } else {
        let width = arguments.get(1).map_or(Ok(100), |text| text.parse())?;
        print!("{}", report::terminal::render(&results, &compare::analyse(&results), width, false));
    }
    Ok(())
}
