"""The door of the central bank's Pix API, version 2.9.0: its operations, its problems, its lists."""
