//! Header fields, read from the bytes of a reply's head.

/// Returns the value of the first field with this name. `name` includes the colon.
pub fn field_in<'h>(head: &'h [u8], name: &'static [u8]) -> Option<&'h [u8]> {
    fields_in(head, name).next()
}

/// Iterates over the values of all fields with this name. `name` includes the colon.
pub fn fields_in<'h>(head: &'h [u8], name: &'static [u8]) -> impl Iterator<Item = &'h [u8]> {
    head.split(|byte| *byte == b'\n')
        .filter(|line| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))
        .map(|line| line[name.len()..].trim_ascii())
}
