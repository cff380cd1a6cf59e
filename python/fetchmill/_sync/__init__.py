"""Makes a folder like its source, again and again: `sync`, its passes and what they report."""
