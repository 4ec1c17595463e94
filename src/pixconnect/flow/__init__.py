"""Who may go on, and who waits: how a process shares out what it has, and refuses what it cannot do in time."""
