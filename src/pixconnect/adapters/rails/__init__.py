"""The rails: one file for each network or institution that money moves over."""
