"""Three machines with PostgreSQL under Patroni, as ``deploy/ha`` configures them, all of them on this one."""
