"""What any floor may stand on."""
