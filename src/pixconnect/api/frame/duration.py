"""Durations as text."""


def format_duration(duration_s: float) -> str:
    """A duration in the unit that suits it.

    Example:
        >>> format_duration(0.00127), format_duration(11525.4)
        ('1.27ms', '3h12m5s')
    """
    # The contract's examples have the form of Go's durations.
    if duration_s < 0.001:
        return f"{round(duration_s * 1e6)}µs"
    if duration_s < 1:
        return f"{duration_s * 1e3:.2f}ms"
    if duration_s < 60:
        return f"{duration_s:.2f}s"
    minutes, seconds = divmod(int(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{seconds}s" if hours else f"{minutes}m{seconds}s"
