"""Puts the rooms together: the only package that names every one of them, with a file for each process.

Three processes are assembled here, and each can be killed at any instant: ``api`` answers callers, ``worker`` does what falls
due, ``sandbox`` is the other side of the rail. They share nothing but PostgreSQL. ``operators`` opens what verbs use;
``base`` is what all of them open, and ``outside`` what reaches beyond this machine.
"""
