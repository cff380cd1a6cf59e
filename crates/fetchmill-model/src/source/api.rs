//! The list/get API: pages of names, each with a marker for the next page.
//!
//! `GET /list` returns `{"FileNames": [...], "NextMarker": "..."}`. On the last page the marker is missing, null or
//! empty. Markers are opaque, so pages can only be requested one after another. An optional `"Total": N` states the
//! number of names in all pages. `GET /get/NAME` returns the object's bytes.

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{BadPage, ListedPage, OriginUrl, PageCursor, resolve_marker};
use crate::error::{Error, Result};
use crate::limits::MARKER_BYTES_MAX;
use crate::options::options;
use crate::outcome::skips::Skips;
use crate::target::Names;

options! {
    /// Names that a server uses for parts of the API.
    #[derive(PartialEq, Eq)]
    pub struct ApiNames {
        /// Path of the listing.
        list_path: String = "/list".into();
        /// Field that contains the names. Dots separate nested fields.
        names_field: String = "FileNames".into();
        /// Field that contains the marker. Dots separate nested fields.
        marker_field: String = "NextMarker".into();
        /// Field that contains the total number of names. Dots separate nested fields.
        total_field: String = "Total".into();
        /// Query parameter for the marker.
        marker_param: String = "next-marker".into();
        /// Path of an object. It must contain `{name}`.
        get_path: String = "/get/{name}".into();
    }
}

impl ApiNames {
    /// Returns the parts of the object path before and after the name.
    pub fn around_name(&self) -> Result<(&str, &str)> {
        match self.get_path.split_once("{name}") {
            Some((before, behind)) if before.starts_with('/') && !behind.contains("{name}") => {
                Ok((before, behind))
            }
            _ => Err(Error::Usage(format!(
                "--get-path {} must start with / and contain {{name}} once, for example /get/{{name}}",
                self.get_path
            ))),
        }
    }

    /// Returns the path and query of a page.
    pub fn page_path(&self, origin: &OriginUrl, marker: Option<&str>) -> Result<String> {
        let mut path = format!("{}{}", origin.path(), self.list_path);
        if let Some(marker) = marker {
            if let Some(whole) = resolve_marker(origin, marker)? {
                return Ok(whole);
            }
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&self.marker_param);
            path.push('=');
            path.extend(url::form_urlencoded::byte_serialize(marker.as_bytes()));
        }
        Ok(path)
    }

    /// Reads a page. Names are stored unchanged. An invalid name makes only its own target fail.
    pub fn read_page(&self, body: &[u8], from: Option<String>) -> std::result::Result<ListedPage, BadPage> {
        let names_path: Vec<&str> = self.names_field.split('.').collect();
        let mut marker_paths = vec![self.marker_field.split('.').collect::<Vec<_>>()];
        if self.marker_field == "NextMarker" {
            // Some servers call the field `NextFile`.
            marker_paths.push(vec!["NextFile"]);
        }
        let total_path: Vec<&str> = self.total_field.split('.').collect();
        let mut found = ApiPage::default();
        let seed = ObjectSeed {
            names: vec![&names_path],
            markers: marker_paths.iter().map(Vec::as_slice).collect(),
            totals: vec![&total_path],
            found: &mut found,
        };
        let mut json = serde_json::Deserializer::from_slice(body);
        seed.deserialize(&mut json)
            .and_then(|()| json.end())
            .map_err(|error| BadPage(format!("the page is not valid JSON of the expected form: {error}")))?;
        if !found.has_names {
            return Err(BadPage(format!("the page has no field {}", self.names_field)));
        }
        let next = found.marker.filter(|marker| !marker.is_empty());
        if next.as_ref().is_some_and(|marker| marker.len() > MARKER_BYTES_MAX) {
            return Err(BadPage(format!("the page's marker is longer than {MARKER_BYTES_MAX} bytes")));
        }
        let ApiPage { names, total, .. } = found;
        Ok(ListedPage { names, skipped: Skips::default(), total, cursor: PageCursor::Marker { from, next } })
    }
}

#[derive(Default)]
struct ApiPage {
    names: Names,
    has_names: bool,
    marker: Option<String>,
    /// Marker fields found so far, at most two.
    marker_fields: Vec<String>,
    total: Option<u64>,
}

/// Searches an object for the wanted paths and ignores everything else.
struct ObjectSeed<'p, 'f> {
    names: Vec<&'p [&'p str]>,
    markers: Vec<&'p [&'p str]>,
    totals: Vec<&'p [&'p str]>,
    found: &'f mut ApiPage,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

/// Returns the remainder of each path that begins with `key`.
fn below<'p>(paths: &[&'p [&'p str]], key: &str) -> Vec<&'p [&'p str]> {
    paths.iter().filter(|path| path.first() == Some(&key)).map(|path| &path[1..]).collect()
}

impl<'de> Visitor<'de> for ObjectSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let names = below(&self.names, &key);
            let markers = below(&self.markers, &key);
            let totals = below(&self.totals, &key);
            if names.iter().any(|path| path.is_empty()) {
                if self.found.has_names {
                    return Err(A::Error::custom(format!("the field {key} appears twice")));
                }
                map.next_value_seed(NamesSeed(&mut self.found.names))?;
                self.found.has_names = true;
            } else if markers.iter().any(|path| path.is_empty()) {
                if self.found.marker_fields.iter().any(|found| *found == key) {
                    return Err(A::Error::custom(format!("the field {key} appears twice")));
                }
                self.found.marker_fields.push(key.into_owned());
                let marker = map.next_value_seed(MarkerSeed)?;
                self.found.marker = self.found.marker.take().or(marker);
            } else if names.is_empty() && markers.is_empty() && totals.is_empty() {
                map.next_value::<IgnoredAny>()?;
            } else if names.is_empty() && markers.is_empty() {
                self.found.total = find_total(&totals, map.next_value::<&RawValue>()?).or(self.found.total);
            } else {
                map.next_value_seed(ObjectSeed { names, markers, totals, found: self.found })?;
            }
        }
        Ok(())
    }
}

/// Returns the number at one of the paths. The number is only a hint, so any other value at this path does not make the
/// page invalid.
fn find_total(paths: &[&[&str]], value: &RawValue) -> Option<u64> {
    if paths.iter().any(|path| path.is_empty()) {
        return whole_number(value.get());
    }
    let mut found = ApiPage::default();
    let seed = ObjectSeed { names: vec![], markers: vec![], totals: paths.to_vec(), found: &mut found };
    seed.deserialize(&mut serde_json::Deserializer::from_str(value.get())).ok()?;
    found.total
}

/// Parses a whole JSON number. Some servers write all numbers with a decimal point or an exponent.
pub(super) fn whole_number(text: &str) -> Option<u64> {
    const EXACT_MAX: f64 = (1_u64 << 53) as f64;
    text.parse().ok().or_else(|| {
        let number: f64 = text.parse().ok()?;
        (number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number)).then_some(number as u64)
    })
}

/// Appends the strings of an array without allocating memory for each one.
struct NamesSeed<'f>(&'f mut Names);

impl<'de> DeserializeSeed<'de> for NamesSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for NamesSeed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an array of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        while seq.next_element_seed(NameSeed(self.0))?.is_some() {}
        Ok(())
    }
}

struct NameSeed<'f>(&'f mut Names);

impl<'de> DeserializeSeed<'de> for NameSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<(), D::Error> {
        // Python's `json` writes bytes that are not text as halves of surrogate pairs. Such a half affects only the
        // name that contains it: `bytes` returns the half as three bytes that are not UTF-8 (see
        // `name::has_surrogate`).
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for NameSeed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_bytes<E>(self, name: &[u8]) -> std::result::Result<(), E> {
        self.0.push(name);
        Ok(())
    }

    fn visit_str<E>(self, name: &str) -> std::result::Result<(), E> {
        self.0.push(name.as_bytes());
        Ok(())
    }
}

pub(super) struct MarkerSeed;

impl<'de> DeserializeSeed<'de> for MarkerSeed {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for MarkerSeed {
    type Value = Option<String>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a marker: a string, a whole number, false or null")
    }

    fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E: serde::de::Error>(self, marker: bool) -> std::result::Result<Self::Value, E> {
        if marker { Err(E::invalid_type(serde::de::Unexpected::Bool(marker), &self)) } else { Ok(None) }
    }

    fn visit_str<E>(self, marker: &str) -> std::result::Result<Self::Value, E> {
        Ok(Some(marker.to_owned()).filter(|marker| !marker.is_empty()))
    }

    fn visit_u64<E>(self, marker: u64) -> std::result::Result<Self::Value, E> {
        Ok(Some(marker.to_string()))
    }

    fn visit_i64<E>(self, marker: i64) -> std::result::Result<Self::Value, E> {
        Ok(Some(marker.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> std::result::Result<(Vec<String>, Option<String>), BadPage> {
        read_with(&ApiNames::default(), body)
    }

    fn read_with(api: &ApiNames, body: &str) -> std::result::Result<(Vec<String>, Option<String>), BadPage> {
        let page = api.read_page(body.as_bytes(), None)?;
        let PageCursor::Marker { next, .. } = page.cursor else { panic!() };
        Ok((page.names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect(), next))
    }

    #[test]
    fn the_last_page_has_no_marker() {
        for body in [
            r#"{"FileNames": ["a"]}"#,
            r#"{"FileNames": ["a"], "NextMarker": null}"#,
            r#"{"NextMarker": "", "FileNames": ["a"]}"#,
            r#"{"NextFile": "", "NextMarker": null, "x": [{"FileNames": 1}], "FileNames": ["a"]}"#,
        ] {
            assert_eq!(read(body).unwrap(), (vec!["a".to_owned()], None), "{body}");
        }
    }

    #[test]
    fn a_marker_is_called_by_either_name() {
        assert_eq!(read(r#"{"FileNames": [], "NextMarker": "m"}"#).unwrap().1.as_deref(), Some("m"));
        assert_eq!(read(r#"{"FileNames": [], "NextFile": "m"}"#).unwrap().1.as_deref(), Some("m"));
        assert_eq!(read(r#"{"FileNames": [], "NextMarker": 17}"#).unwrap().1.as_deref(), Some("17"));
    }

    #[test]
    fn fields_may_be_dotted() {
        let api = ApiNames {
            names_field: "data.keys".into(),
            marker_field: "data.next".into(),
            ..Default::default()
        };

        let page = read_with(&api, r#"{"data": {"x": {}, "keys": ["\u00e9"], "next": "n"}}"#).unwrap();

        assert_eq!(page, (vec!["é".to_owned()], Some("n".to_owned())));
    }

    fn total(field: &str, body: &str) -> Option<u64> {
        let api = ApiNames { total_field: field.into(), ..Default::default() };
        api.read_page(body.as_bytes(), None).unwrap().total
    }

    #[test]
    fn a_page_may_say_how_many_objects_there_are() {
        for (text, number) in [
            ("1000000000", Some(1_000_000_000)),
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("1e9", Some(1_000_000_000)),
            ("25.0", Some(25)),
            ("25.5", None),
            ("-1", None),
            ("1e999", None),
            ("null", None),
            ("\"5\"", None),
            ("\"\\ud800\"", None),
            ("[5]", None),
            ("{\"Total\": 5}", None),
        ] {
            let body = format!(r#"{{"Total": {text}, "FileNames": ["a"]}}"#);
            assert_eq!(total("Total", &body), number, "{text}");
            let body = format!(r#"{{"FileNames": ["a"], "page": {{"x": [], "all": {text}}}}}"#);
            assert_eq!(total("page.all", &body), number, "{text}");
            assert_eq!(total("Total", &body), None);
        }
        assert_eq!(total("Total.all", r#"{"Total": 5, "FileNames": []}"#), None);
        assert_eq!(total("Total.all", r#"{"Total": [{"all": 5}], "FileNames": []}"#), None);
        assert_eq!(total("FileNames", r#"{"FileNames": []}"#), None);
    }

    #[test]
    fn the_total_may_lie_beside_the_names() {
        let api = ApiNames {
            names_field: "data.keys".into(),
            total_field: "data.count".into(),
            ..Default::default()
        };

        let page = api.read_page(br#"{"data": {"count": 7, "keys": ["a"]}}"#, None).unwrap();

        assert_eq!((page.names.len(), page.total), (1, Some(7)));
    }

    #[test]
    fn what_is_no_page_is_told() {
        for (body, message) in [
            ("", "EOF"),
            ("<html>", "expected value"),
            ("[]", "expected an object"),
            ("{}", "no field FileNames"),
            (r#"{"FileNames": "a"}"#, "expected an array of names"),
            (r#"{"FileNames": [1]}"#, "expected a name"),
            (r#"{"FileNames": ["a"]"#, "EOF"),
            (r#"{"FileNames": [], "FileNames": []}"#, "twice"),
            (r#"{"FileNames": [], "NextMarker": {}}"#, "expected a marker"),
            (r#"{"FileNames": []} x"#, "trailing"),
        ] {
            let error = read(body).unwrap_err().to_string();
            assert!(error.contains(message), "{body}: {error}");
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep =
            format!("{{\"x\": {}{}, \"FileNames\": []}}", "[".repeat(1_000_000), "]".repeat(1_000_000));

        assert_eq!(read(&deep).unwrap(), (vec![], None));
        assert_eq!(total("x", &deep), None);
        assert_eq!(total("x.y", &deep), None);
        assert!(read(&deep.replace('x', "FileNames")).is_err());
    }

    #[test]
    fn paths_are_encoded() {
        let origin = OriginUrl::parse("http://a/base/").unwrap();
        let api = ApiNames::default();

        assert_eq!(api.page_path(&origin, None).unwrap(), "/base/list");
        assert_eq!(
            api.page_path(&origin, Some("a b&c=/é")).unwrap(),
            "/base/list?next-marker=a+b%26c%3D%2F%C3%A9"
        );
        assert_eq!(api.page_path(&origin, Some("http://a/p?q")).unwrap(), "/p?q");
        let api = ApiNames { list_path: "/list?all=1".into(), ..api };
        assert_eq!(api.page_path(&origin, Some("x")).unwrap(), "/base/list?all=1&next-marker=x");
    }

    #[test]
    fn the_path_of_an_object_holds_the_name_once() {
        for get_path in ["/get", "get/{name}", "/{name}/{name}"] {
            let api = ApiNames { get_path: get_path.into(), ..Default::default() };
            assert_eq!(api.around_name().unwrap_err().exit_code(), 2);
        }
        assert_eq!(ApiNames::default().around_name().unwrap(), ("/get/", ""));
    }
}
