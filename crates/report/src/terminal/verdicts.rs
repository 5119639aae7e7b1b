//! The differences that were shown, by environment.

use crate::in_short;
use crate::view::View;

use crate::canvas::Canvas;

pub(super) fn draw(canvas: &mut Canvas, view: &View) {
    let lines = in_short::lines(view);
    if lines.is_empty() {
        return;
    }
    canvas.heading("in short");
    for line in lines {
        canvas.item("-", &line);
    }
}
