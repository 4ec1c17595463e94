"""What tests, benchmarks and the pages that are written by programs stand on."""
