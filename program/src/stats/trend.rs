//! A figure over time in one line of text.

/// The heights of a column, from the lowest to the highest.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws values, each with its time, as columns of equal lengths of time between the first and the last, at most `most` of them.
/// Several values of one column are drawn as the greatest of them, so that no peak is lost. A column without a value is empty.
pub(crate) fn drawn(values: &[(u64, f64)], most: usize) -> String {
    let (Some((first, _)), Some((last, _))) = (values.first(), values.last()) else { return String::new() };
    let width = most.min(values.len());
    let mut columns: Vec<Option<f64>> = vec![None; width];
    for (at, value) in values {
        let column = column_of(at.saturating_sub(*first), last.saturating_sub(*first), width);
        let greatest = columns[column].map_or(*value, |other| other.max(*value));
        columns[column] = Some(greatest);
    }
    let peak = columns.iter().flatten().fold(0.0, |most: f64, value| most.max(*value));
    columns.into_iter().map(|value| value.map_or(' ', |value| height(value, peak))).collect()
}

/// Returns the column, of this many, of a time within the length of all.
fn column_of(time: u64, length: u64, width: usize) -> usize {
    let share = if length == 0 { 0.0 } else { time as f64 / length as f64 };
    // A float is exact enough for a column.
    ((share * width as f64) as usize).min(width - 1)
}

/// Returns how high a value is if the greatest one fills a column.
fn height(value: f64, most: f64) -> char {
    let share = if most > 0.0 { value / most } else { 0.0 };
    let step = (share * (HEIGHTS.len() - 1) as f64).round() as usize;
    HEIGHTS[step.min(HEIGHTS.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 40;

    fn minutes(values: &[f64]) -> Vec<(u64, f64)> {
        (0..).step_by(60_000).zip(values.iter().copied()).collect()
    }

    #[test]
    fn the_greatest_value_fills_its_column_and_zeros_are_flat() {
        assert_eq!(drawn(&minutes(&[0.0, 1.0, 3.5, 7.0]), WIDTH), "▁▂▅█");
        assert_eq!(drawn(&minutes(&[0.0, 0.0]), WIDTH), "▁▁");
        assert_eq!((drawn(&[], WIDTH), drawn(&minutes(&[5.0]), WIDTH)), (String::new(), "█".to_owned()));
    }

    #[test]
    fn a_time_without_values_is_empty() {
        let values = [(0, 1.0), (1, 1.0), (9, 1.0), (10, 1.0)];
        assert_eq!(drawn(&values, WIDTH), "█  █");
    }

    #[test]
    fn a_peak_among_many_values_is_drawn() {
        let mut values = vec![1.0; 1440];
        values[700] = 100.0;
        let line = drawn(&minutes(&values), WIDTH);
        assert_eq!(line.chars().count(), WIDTH);
        assert_eq!(line.chars().filter(|c| *c == '█').count(), 1);
    }
}
