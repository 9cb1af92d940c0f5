"""Families of learning methods: a folder holds everything that one family adds.

Its modules keep the order of the packages: what learns imports no task, a task no page, a page no observer of a run.
Other packages know a family by the registries (`conf/method/NAME.yaml`, TASKS).
"""
