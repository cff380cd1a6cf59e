"""`transform`: runs the user's function between fetching and storing, in separate processes."""
