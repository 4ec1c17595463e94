"""The console: pages for people, made on the server, over the use cases that there are."""
