//! Slurm's short form of many node names: `n[1-3,07-09],gpu1`. Several brackets in one name, as in
//! `rack[0-1]node[1-2]`, mean every combination, the last bracket counting fastest. Numbers keep
//! their leading zeros. Text only.

/// Most nodes that a list may mean.
const LIMIT: usize = 65_536;

/// The names that the list means, in its order.
pub(super) fn expand(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for item in split(text)? {
        names.extend(expand_item(item)?);
        if names.len() > LIMIT {
            return Err(too_many());
        }
    }
    Ok(names)
}

fn too_many() -> String {
    format!("it means more than {LIMIT} nodes")
}

/// The items between the commas that are not inside brackets.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut items, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match (character, is_inside) {
            ('[', false) => is_inside = true,
            (']', true) => is_inside = false,
            ('[', true) => return Err("it has a `[` inside brackets".to_owned()),
            (']', false) => return Err("it has a `]` without `[`".to_owned()),
            (',', false) => {
                items.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if is_inside {
        return Err("it has a `[` without `]`".to_owned());
    }
    items.push(&text[start..]);
    if items.iter().any(|item| item.trim().is_empty()) {
        return Err("there is nothing between two commas or at an end".to_owned());
    }
    Ok(items)
}

/// All names of one item.
fn expand_item(item: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = item.trim();
    while let Some((before, after)) = rest.split_once('[') {
        let (inside, behind) = after.split_once(']').unwrap_or((after, ""));
        let numbers = numbers(inside)?;
        if names.len().saturating_mul(numbers.len()) > LIMIT {
            return Err(too_many());
        }
        let combined = names.iter().flat_map(|name| {
            let numbers = numbers.iter();
            numbers.map(move |number| format!("{name}{before}{number}"))
        });
        names = combined.collect();
        rest = behind;
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Ok(names)
}

/// The numbers that `1-3,07` means, with their zeros.
fn numbers(text: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| -> Result<u32, String> {
            let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let parsed = is_digits.then(|| text.parse().ok()).flatten();
            parsed.ok_or_else(|| format!("`{range}` in brackets is neither a number nor a range"))
        };
        let (low, high) = (number(first)?, number(last)?);
        if high < low {
            return Err(format!("the range `{range}` ends before it begins"));
        }
        let length = usize::try_from(high - low).unwrap_or(usize::MAX);
        if length.saturating_add(all.len()) >= LIMIT {
            return Err(too_many());
        }
        let width = first.len();
        all.extend((low..=high).map(|number| format!("{number:0width$}")));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_slurm_writes_is_read() {
        for (text, names) in [
            ("n1", "n1"),
            ("n[1-3,07-09],gpu1", "n1 n2 n3 n07 n08 n09 gpu1"),
            ("n[08-11]", "n08 n09 n10 n11"),
            ("n[5]", "n5"),
            (
                "rack[0-1]node[1-2]",
                "rack0node1 rack0node2 rack1node1 rack1node2",
            ),
            ("n[1-2]-ib.lab,login", "n1-ib.lab n2-ib.lab login"),
            ("n[000-002]", "n000 n001 n002"),
        ] {
            assert_eq!(expand(text).unwrap().join(" "), names, "{text}");
        }
    }

    #[test]
    fn what_slurm_does_not_write_is_refused() {
        for (text, problem) in [
            ("n[1-", "`[` without `]`"),
            ("n1]", "`]` without `[`"),
            ("n[[1]]", "`[` inside"),
            ("n[3-1]", "ends before"),
            ("n[a-b]", "neither a number nor a range"),
            ("n[]", "neither a number nor a range"),
            ("n[+1]", "neither a number nor a range"),
            ("n1,,n2", "nothing between"),
            ("", "nothing between"),
            ("n[0-4000000000]", "more than 65536"),
            ("n[0-999][0-999]", "more than 65536"),
        ] {
            let said = expand(text).unwrap_err();
            assert!(said.contains(problem), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn a_range_means_each_number_once(low in 0_u32..2000, more in 0_u32..300, width in 0_usize..6) {
            let high = low + more;
            let names = expand(&format!("x[{low:0width$}-{high:0width$}]y")).unwrap();
            let each: Vec<String> = (low..=high).map(|number| format!("x{number:0width$}y")).collect();
            prop_assert_eq!(names, each);
        }

        #[test]
        fn plain_names_stay_as_they_are(names in proptest::collection::vec("[a-z][a-z0-9.-]{0,8}", 1..9)) {
            prop_assert_eq!(expand(&names.join(",")).unwrap(), names);
        }

        #[test]
        fn any_text_ends_in_an_answer(text in "[n0-9,\\[\\]-]{0,30}") {
            let _ = expand(&text);
        }
    }
}
