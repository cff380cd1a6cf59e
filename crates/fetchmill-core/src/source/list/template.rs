//! `--template`: a URL made of columns' values.

use crate::error::{Error, Result};

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text as it is.
    Text(String),
    /// A column's value as it is; without a name that of the URL's column.
    Column(Option<String>),
}

/// `https://www.{}/{name}`; `{{` and `}}` are braces.
pub(super) fn parse(template: &str) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = template;
    while let Some(position) = rest.find(['{', '}']) {
        text.push_str(&rest[..position]);
        let behind = &rest[position + 1..];
        let brace = &rest[position..=position];
        if let Some(behind) = behind.strip_prefix(brace) {
            text.push_str(brace);
            rest = behind;
            continue;
        }
        let end = behind.find('}').filter(|_| brace == "{");
        let Some(end) = end else { return Err(unpaired(template)) };
        let name = &behind[..end];
        if name.contains('{') {
            return Err(unpaired(template));
        }
        pieces.push(Piece::Text(std::mem::take(&mut text)));
        pieces.push(Piece::Column((!name.is_empty()).then(|| name.to_owned())));
        rest = &behind[end + 1..];
    }
    text.push_str(rest);
    pieces.push(Piece::Text(text));
    pieces.retain(|piece| *piece != Piece::Text(String::new()));
    if !pieces.iter().any(|piece| matches!(piece, Piece::Column(_))) {
        return Err(Error::Usage(format!(
            "--template {template} has no {{}}: every target would have the same URL; write {{}} where the value stands"
        )));
    }
    Ok(pieces)
}

fn unpaired(template: &str) -> Error {
    Error::Usage(format!(
        "--template {template} has a brace without its other one; write {{{{ or }}}} for a brace itself"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    #[test]
    fn a_template_has_places_for_values() {
        assert_eq!(parse("https://www.{}").unwrap(), [text("https://www."), Piece::Column(None)]);
        assert_eq!(
            parse("http://{host}/{{x}}/{}/y").unwrap(),
            [
                text("http://"),
                Piece::Column(Some("host".into())),
                text("/{x}/"),
                Piece::Column(None),
                text("/y")
            ]
        );
        assert_eq!(parse("{{{}}}").unwrap(), [text("{"), Piece::Column(None), text("}")]);
    }

    #[test]
    fn a_template_that_makes_no_sense_is_refused() {
        for template in ["", "http://a/", "http://a/{{}}", "{", "}", "a{b", "a}{}", "{a{b}}"] {
            assert_eq!(parse(template).unwrap_err().exit_code(), 2, "{template}");
        }
    }
}
