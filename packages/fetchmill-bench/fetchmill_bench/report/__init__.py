"""Parts of the bench report: escaping markup, tables, plots, and the choice of results to compare."""
