"""What the report of the bench is made of: markup that escapes, tables, plots, and which results stand beside which."""
