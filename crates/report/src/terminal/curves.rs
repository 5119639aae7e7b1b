//! Curves as a compact matrix: some values of x as columns, a row for each environment, and the worst ratio.

use comfy_table::Cell as Text;

use crate::units;
use crate::view::{Cell, Curve, View, environment_name};

use crate::canvas::Canvas;

pub(super) fn draw(canvas: &mut Canvas, view: &View, curves: &[Curve]) {
    for curve in curves {
        let title = format!("{} (by {})", units::text(curve.name), units::text(curve.x_title));
        canvas.paragraph(&title);
        let layouts = [9, 7, 5, 4, 3, 2].map(|columns| matrix(view, curve, columns)).into();
        canvas.first_that_fits(layouts);
    }
}

/// Places spread evenly over the points, both ends among them.
fn chosen(points: usize, columns: usize) -> Vec<usize> {
    if points <= columns {
        return (0..points).collect();
    }
    (0..columns).map(|column| (column * (points - 1) + (columns - 1) / 2) / (columns - 1)).collect()
}

fn matrix(view: &View, curve: &Curve, columns: usize) -> (Vec<String>, Vec<Vec<Text>>) {
    let places = chosen(curve.points.len(), columns);
    let mut head = vec![String::new()];
    head.extend(places.iter().map(|&place| units::place(curve.points[place].0, curve.x_title)));
    head.push("worst".into());
    let line = |(column, environment): (usize, &&measure::EnvironmentRecord)| {
        let mut line = vec![Text::new(environment_name(environment))];
        let mark = if environment.emulated { crate::EMULATED_MARK } else { "" };
        for &place in &places {
            let row = &curve.points[place].1;
            line.push(Text::new(match row.cells[column] {
                Cell::Measured(summary, _) => {
                    format!("{}{mark}", units::value(summary.median, &row.spec.unit))
                }
                Cell::Absent(_) => "absent".into(),
                Cell::Unknown => "none".into(),
            }));
        }
        let compared = curve.points.iter().filter_map(|(x, row)| Some((x, row.cells[column].comparison()?)));
        let worst = compared.max_by(|a, b| a.1.slowdown.total_cmp(&b.1.slowdown));
        line.push(worst.map_or_else(
            || Text::new(""),
            |(x, comparison)| {
                Text::new(format!(
                    "{} at {}",
                    crate::view::finding_short(comparison),
                    units::place(*x, curve.x_title)
                ))
            },
        ));
        line
    };
    (head, view.environments.iter().enumerate().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn both_ends_are_always_shown() {
        for points in 1..40 {
            for columns in 2..10 {
                let places = chosen(points, columns);
                assert_eq!((places[0], *places.last().unwrap()), (0, points - 1));
                assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
            }
        }
    }
}
