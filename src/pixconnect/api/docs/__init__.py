"""The API described: OpenAPI, and the pages that are made from it."""
