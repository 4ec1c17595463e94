"""The command line: settings, output, failures; features add verbs."""
