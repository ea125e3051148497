//! Medians and spreads.

/// The middle value; of an even number, the upper one of the two.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The median distance from the median, over the median.
pub fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values.to_vec())?;
    let far = median(values.iter().map(|value| (value - middle).abs()).collect())?;
    Some(if middle == 0.0 { 0.0 } else { far / middle })
}
