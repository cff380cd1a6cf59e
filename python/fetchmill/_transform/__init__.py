"""`transform`: the user's function between fetching and storing, in processes of its own."""
