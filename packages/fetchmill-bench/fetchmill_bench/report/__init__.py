"""The parts of the bench report: markup, tables, plots, and the choice of results to compare."""
