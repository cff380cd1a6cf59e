"""Values of kept columns (docs/reference/formats.md#types-of-kept-columns)."""

ColumnValue = str | int | float | bool | None
