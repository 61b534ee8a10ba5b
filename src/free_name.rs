//! Finds a name that is not taken yet: the wanted name, or the first free name with a number.

/// The wanted name if it is free. Otherwise the first free one of `numbered(2)`, `numbered(3)` and so on.
pub fn free_name<T>(wanted: T, numbered: impl Fn(u32) -> T, is_taken: impl Fn(&T) -> bool) -> T {
    let mut name = wanted;
    let mut number = 1;
    while is_taken(&name) {
        number += 1;
        name = numbered(number);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::free_name;

    #[test]
    fn the_first_free_name_is_taken() {
        let taken = |name: &String| ["a", "a.2"].contains(&name.as_str());
        assert_eq!(free_name("a".to_owned(), |number| format!("a.{number}"), taken), "a.3");
        assert_eq!(free_name("b".to_owned(), |number| format!("b.{number}"), taken), "b");
    }
}
