"""The verbs of operators, who act for the installation: on the database, each act recorded."""
