//! Amounts of money: the price of an agent's work and the budget of a run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount of money in millionths of a dollar, so that sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(u64);

impl Cost {
    const MICROS: f64 = 1e6;

    /// A price that an agent client reported. A reported price of zero means that the client does not know the price.
    #[must_use]
    pub fn reported(amount: f64) -> Option<Self> {
        Self::dollars(amount).filter(|cost| cost.0 > 0)
    }

    /// An amount in dollars. `None` if the amount is negative or not a number.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
    pub fn dollars(amount: f64) -> Option<Self> {
        let micros = (amount * Self::MICROS).round();
        // Above 2^53 (about 9e15) a float no longer holds every whole number exactly.
        (0.0..9e15).contains(&micros).then_some(Cost(micros as u64))
    }

    /// The sum of two amounts.
    #[must_use]
    pub fn plus(self, more: Cost) -> Cost {
        Cost(self.0.saturating_add(more.0))
    }

    /// The amount in dollars.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "below 2^53, see above")]
    pub fn as_dollars(self) -> f64 {
        self.0 as f64 / Self::MICROS
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = if self.0 < 1_000_000 { 3 } else { 2 };
        write!(f, "${:.places$}", self.as_dollars())
    }
}

impl FromStr for Cost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let amount = text.trim().trim_start_matches('$').parse().ok().filter(|amount: &f64| *amount > 0.0);
        amount.and_then(Cost::dollars).ok_or_else(|| format!("'{text}' is not an amount of dollars, such as 2.50"))
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_dollars())
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let amount = f64::deserialize(deserializer)?;
        Cost::dollars(amount).ok_or_else(|| serde::de::Error::custom(format!("{amount} is not an amount of dollars")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_back_as_it_was_written() {
        for text in ["0.01728", "12.5", "$3"] {
            let cost: Cost = text.parse().unwrap();
            assert_eq!(serde_json::from_str::<Cost>(&serde_json::to_string(&cost).unwrap()).unwrap(), cost);
        }
        assert_eq!("0.0172".parse::<Cost>().unwrap().to_string(), "$0.017");
        for text in ["", "0", "-1", "NaN", "inf", "1e300", "five"] {
            assert!(text.parse::<Cost>().is_err(), "{text}");
        }
    }
}
