"""Values of kept columns (docs/formats.md#types-of-kept-columns)."""

ColumnValue = str | int | float | bool | None
