//! Results as JSON lines: one object per row, with all columns that have a value. `null` never occurs.

use serde::ser::{Serialize, SerializeMap, Serializer};

use fetchmill_model::row::{ColumnTypes, LISTED_COLUMNS, ListRow, RowValues, Value};
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_model::text::dates::write_utc_micros;

/// Appends a row.
pub(super) fn write_row(own: ColumnTypes, row: RowValues<'_>, kept: &ExtraColumns, line: &mut Vec<u8>) {
    // Writing to memory cannot fail, and strings and numbers can always be written as JSON.
    let _ = serde_json::to_writer(&mut *line, &JsonRow { own, row, kept });
    line.push(b'\n');
}

/// Appends a row of a list that is written out. The row has the form of a manifest line.
pub fn write_manifest_line(row: &ListRow<'_>, line: &mut Vec<u8>) {
    let values = RowValues { values: &row.values(), kept: &row.kept };
    write_row(&LISTED_COLUMNS, values, &ExtraColumns::default(), line);
}

struct JsonRow<'o> {
    own: ColumnTypes,
    row: RowValues<'o>,
    kept: &'o ExtraColumns,
}

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.own.len() + self.kept.kept().len()))?;
        for ((name, _), value) in self.own.iter().zip(self.row.values) {
            map.serialize_entry(name, &JsonValue(*value))?;
        }
        for (column, (name, kind)) in self.kept.typed().enumerate() {
            let text = self.row.extra_value(column);
            match text.and_then(|text| kind.read(text.as_bytes())) {
                Some(value) => map.serialize_entry(name, &value)?,
                None => map.serialize_entry(name, &text)?,
            }
        }
        map.end()
    }
}

struct JsonValue<'v>(Value<'v>);

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => to.serialize_none(),
            Value::Text(text) => to.serialize_str(text),
            Value::Texts(texts) => to.collect_seq(texts),
            Value::Number(number) => to.serialize_u64(number),
            Value::Millis(millis) => to.serialize_f32(millis),
            Value::Time(time) => {
                let mut text = Vec::new();
                write_utc_micros(time, &mut text);
                to.serialize_str(&String::from_utf8_lossy(&text))
            }
            Value::Flag(flag) => to.serialize_bool(flag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_model::row::{CheckRow, ROW_COLUMNS};

    #[test]
    fn a_row_has_all_its_columns() {
        let row = CheckRow {
            url: Some("https://a/".into()),
            redirects: vec!["https://b/".into()],
            started_at: 1,
            dns_ms: Some(0.125),
            kept: vec![None],
            ..CheckRow::default()
        };
        let mut line = Vec::new();

        let record = RowValues { values: &row.values(), kept: &row.kept };
        write_row(
            &ROW_COLUMNS,
            record,
            &ExtraColumns::of_list(["rank".to_owned(), "new".to_owned()]).unwrap(),
            &mut line,
        );

        assert!(line.ends_with(b"}\n"));
        let object: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(object.as_object().unwrap().len(), ROW_COLUMNS.len() + 2);
        assert_eq!(object["redirects"], serde_json::json!(["https://b/"]));
        assert_eq!(object["started_at"], "1970-01-01T00:00:00.000001Z");
        assert_eq!((&object["dns_ms"], &object["tls_ms"]), (&0.125.into(), &serde_json::Value::Null));
        assert_eq!((&object["rank"], &object["new"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    }
}
