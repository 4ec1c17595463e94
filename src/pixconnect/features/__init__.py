"""The features, each a folder or a file that says where its rows are: only ``pixconnect.feature`` imports them, by name."""
