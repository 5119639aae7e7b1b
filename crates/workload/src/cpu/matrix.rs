//! Integer matrix arithmetic: product, scaling, matrix times vector, and extracted bit fields.

use std::hint::black_box;

use super::kernel::Kernel;
use super::mix::{Generator, fold};

const SIDE: usize = 24;
const SEED: u32 = 0x0a77_1ce5;

type Square = [[i32; SIDE]; SIDE];

pub(crate) struct Matrix {
    left: Square,
    right: Square,
    product: Square,
}

impl Default for Matrix {
    fn default() -> Self {
        let mut values = Generator::new(SEED);
        let mut small = || (values.next() >> 20) as i32 - 2048;
        let mut square = || std::array::from_fn(|_| std::array::from_fn(|_| small()));
        Matrix { left: square(), right: square(), product: [[0; SIDE]; SIDE] }
    }
}

impl Kernel for Matrix {
    const EXPECTED: u32 = 0xc767_ee3a;

    fn run(&mut self) -> u32 {
        let (left, right) = (black_box(&self.left), black_box(&self.right));
        for (row, out) in left.iter().zip(&mut self.product) {
            *out = [0; SIDE];
            // Row by row of the right factor: unit stride, as a compiler for any CPU likes it.
            for (factor, right_row) in row.iter().zip(right) {
                for (cell, value) in out.iter_mut().zip(right_row) {
                    *cell = cell.wrapping_add(factor.wrapping_mul(*value));
                }
            }
        }
        let scale = black_box(3);
        let vector = &left[0];
        let mut sum = 0;
        for row in &mut self.product {
            let mut dot = 0i32;
            let mut fields = 0u32;
            for (cell, weight) in row.iter_mut().zip(vector) {
                *cell = cell.wrapping_mul(scale);
                dot = dot.wrapping_add(cell.wrapping_mul(*weight));
                fields = fields
                    .wrapping_add((*cell as u32 >> 2) & 0xf)
                    .wrapping_mul((*cell as u32 >> 5) & 0x7f | 1);
            }
            sum = fold(fold(sum, dot as u32), fields);
        }
        sum
    }

    #[cfg(test)]
    fn corrupt(&mut self) {
        self.left[7][11] ^= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expected_value_is_that_of_the_textbook_formulas() {
        let Matrix { left, right, .. } = Matrix::default();
        let mut sum = 0;
        for i in 0..SIDE {
            let row: Vec<u32> = (0..SIDE)
                .map(|j| (0..SIDE).map(|k| i64::from(left[i][k]) * i64::from(right[k][j])).sum::<i64>())
                .map(|cell| (cell * 3) as u32)
                .collect();
            let dot = (0..SIDE).map(|j| i64::from(row[j] as i32) * i64::from(left[0][j])).sum::<i64>();
            let fields = row.iter().fold(0u32, |fields, cell| {
                (fields + ((cell / 4) % 16)).wrapping_mul(((cell / 32) % 128) | 1)
            });
            sum = fold(fold(sum, dot as u32), fields);
        }
        assert_eq!(Matrix::EXPECTED, sum, "{sum:#010x}");
    }
}
