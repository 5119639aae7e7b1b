//! A process with a guest that does a known thing once the file `/go` exists: `known_guest exits COUNT`, or
//! `known_guest burn MILLISECONDS`. Tests trace it in a machine.

use std::path::Path;
use std::time::{Duration, Instant};

use kvm::KnownGuest;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (what, number) = (arguments.next().ok_or("exits or burn")?, arguments.next().ok_or("a number")?);
    let mut guest = KnownGuest::prepare()?;
    println!("ready");
    while !Path::new("/go").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let start = Instant::now();
    let stolen = match &*what {
        "exits" => guest.write(number.parse()?).map(|()| Duration::ZERO)?,
        "burn" => guest.burn(Duration::from_millis(number.parse()?))?,
        _ => return Err("exits or burn".into()),
    };
    println!("elapsed {}\nstolen {}", start.elapsed().as_nanos(), stolen.as_nanos());
    // Its threads are looked at now and then.
    std::thread::sleep(Duration::from_millis(500));
    Ok(())
}
