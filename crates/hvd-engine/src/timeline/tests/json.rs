//! A strict little JSON reader: whatever it accepts is JSON, and numbers are whole.

use std::collections::BTreeMap;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Json {
    Number(u64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// The value of a whole text, or where it stops making sense.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim_end();
        let value = value(&mut rest)?;
        if rest.is_empty() {
            Ok(value)
        } else {
            Err(format!("more text after the value: {rest:.20}"))
        }
    }

    fn object(&self) -> &BTreeMap<String, Json> {
        match self {
            Self::Object(object) => object,
            other => panic!("not an object: {other:?}"),
        }
    }

    /// The objects of a list.
    pub(super) fn objects(&self) -> Vec<&BTreeMap<String, Json>> {
        let Self::List(items) = self else {
            panic!("not a list: {self:?}");
        };
        items.iter().map(Self::object).collect()
    }
}

fn value(rest: &mut &str) -> Result<Json, String> {
    *rest = rest.trim_start();
    match rest.chars().next() {
        Some('"') => string(rest).map(Json::Text),
        Some('[') => items(rest, ']', value).map(Json::List),
        Some('{') => {
            let members = items(rest, '}', member)?;
            let count = members.len();
            let object: BTreeMap<_, _> = members.into_iter().collect();
            if object.len() < count {
                return Err("a key stands twice".to_owned());
            }
            Ok(Json::Object(object))
        }
        _ => number(rest).map(Json::Number),
    }
}

fn member(rest: &mut &str) -> Result<(String, Json), String> {
    *rest = rest.trim_start();
    let key = string(rest)?;
    expect(rest, ':')?;
    Ok((key, value(rest)?))
}

fn items<T>(
    rest: &mut &str,
    closing: char,
    mut item: impl FnMut(&mut &str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    *rest = &rest[1..];
    let mut found = Vec::new();
    loop {
        found.push(item(rest)?);
        if expect(rest, closing).is_ok() {
            return Ok(found);
        }
        expect(rest, ',')?;
    }
}

fn expect(rest: &mut &str, wanted: char) -> Result<(), String> {
    let trimmed = rest.trim_start();
    let Some(after) = trimmed.strip_prefix(wanted) else {
        return Err(format!("`{wanted}` expected at: {trimmed:.20}"));
    };
    *rest = after;
    Ok(())
}

fn number(rest: &mut &str) -> Result<u64, String> {
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (digits, after) = rest.split_at(end.unwrap_or(rest.len()));
    let number = digits.parse().map_err(|_| format!("at: {rest:.20}"))?;
    *rest = after;
    Ok(number)
}

fn string(rest: &mut &str) -> Result<String, String> {
    expect(rest, '"')?;
    let mut text = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next().ok_or("string without end")? {
            '"' => break,
            '\\' => text.push(escaped(&mut characters)?),
            control if control < ' ' => return Err("control character in string".to_owned()),
            other => text.push(other),
        }
    }
    *rest = characters.as_str();
    Ok(text)
}

fn escaped(characters: &mut std::str::Chars<'_>) -> Result<char, String> {
    match characters.next() {
        Some(plain @ ('"' | '\\')) => Ok(plain),
        Some('n') => Ok('\n'),
        Some('u') => {
            let digits: String = characters.by_ref().take(4).collect();
            let code = u32::from_str_radix(&digits, 16).map_err(|error| error.to_string())?;
            char::from_u32(code).ok_or_else(|| format!("no character: {code}"))
        }
        other => Err(format!("unknown escape {other:?}")),
    }
}
